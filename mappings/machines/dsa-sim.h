/* The C library of the simulated DSA. Every call but vendor_lib_sync and vendor_lib_barrier appends
   to a queue and returns. Queues: 0 dma_in, 1 dma_out, 2 VEC, 3 MMA. Strides are bytes; a stride
   of 0 repeats. Element types:
   0 bool, 1 int8, 2 uint8, 3 int16, 4 uint16
   5 int32, 6 uint32, 7 int64, 8 uint64, 9 float16
   10 bfloat16, 11 float32, 12 float64, 13 float8_e4m3fn, 14 float8_e5m2 */
#ifndef DSA_SIM_H
#define DSA_SIM_H

#include <stdint.h>

/* Address of a byte of a memory of this core. */
void *vendor_lib_spm_ptr(int64_t offset);
void *vendor_lib_acc_ptr(int64_t offset);
void *vendor_lib_vreg_ptr(int64_t offset);

/* Copy rows of bytes from one memory to another. */
void vendor_lib_dma_copy(int32_t queue, void *dst, int64_t dst_stride, const void *src,
    int64_t src_stride, int64_t rows, int64_t row_bytes);

/* Zero rows of bytes. */
void vendor_lib_dma_zero(int32_t queue, void *dst, int64_t dst_stride, int64_t rows,
    int64_t row_bytes);

/* C = a @ b, or c += a @ b; layouts are the instruction's, in the machine file. */
void vendor_lib_mma(int32_t queue, void *c, int64_t c_stride, const void *a, int64_t a_stride,
    int32_t a_transposed, const void *b, int64_t b_stride, int32_t b_transposed, int32_t m,
    int32_t n, int32_t k, int32_t c_type, int32_t type, int32_t accumulate);

/* Dst = function(x), element by element. */
void vendor_lib_vec_neg(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_abs(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_exp(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_exp2(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_log(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_log2(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_sqrt(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_rsqrt(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_tanh(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_sigmoid(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_erf(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_sin(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_cos(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_floor(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_ceil(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_round(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_not(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_invert(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);

/* Dst = function(x, y); comparisons write bool. */
void vendor_lib_vec_add(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_subtract(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col,
    int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_multiply(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col,
    int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_divide(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col,
    int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_floor_divide(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col,
    int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_remainder(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col,
    int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_power(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_maximum(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col,
    int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_minimum(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col,
    int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_and(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_or(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_xor(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_left_shift(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col,
    int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_right_shift(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col,
    int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_less(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_less_equal(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col,
    int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_greater(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col,
    int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_greater_equal(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col,
    int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_equal(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_not_equal(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, const void *y, int64_t y_row, int64_t y_col,
    int32_t rows, int32_t cols, int32_t type);

/* Dst = function(x, value), or function(value, x). */
void vendor_lib_vec_add_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_subtract_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_multiply_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_divide_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_floor_divide_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_remainder_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_power_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_maximum_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_minimum_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_and_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_or_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_xor_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_left_shift_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_right_shift_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_less_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_less_equal_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_greater_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_greater_equal_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_equal_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_not_equal_imm(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, double value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);

/* The same in integers, whose values a double cannot hold. */
void vendor_lib_vec_add_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_subtract_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_multiply_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_divide_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_floor_divide_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_remainder_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_power_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_maximum_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_minimum_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_and_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_or_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_xor_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_left_shift_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_right_shift_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_less_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_less_equal_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_greater_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_greater_equal_imm_int(int32_t queue, void *dst, int64_t dst_row,
    int64_t dst_col, const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed,
    int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_equal_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);
void vendor_lib_vec_not_equal_imm_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *x, int64_t x_row, int64_t x_col, int64_t value, int32_t reversed, int32_t rows,
    int32_t cols, int32_t type);

/* Dst = x where the bool c holds, else y. */
void vendor_lib_vec_select(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    const void *c, int64_t c_row, int64_t c_col, const void *x, int64_t x_row, int64_t x_col,
    const void *y, int64_t y_row, int64_t y_col, int32_t rows, int32_t cols, int32_t type);

/* Dst = x in another dtype (of `type`), rounded to nearest even. */
void vendor_lib_vec_cast(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t dst_type, int32_t type);

/* Dst[row] = reduction of x[row, :]. */
void vendor_lib_vec_reduce_sum(int32_t queue, void *dst, int64_t dst_row, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t accumulate, int32_t type);
void vendor_lib_vec_reduce_max(int32_t queue, void *dst, int64_t dst_row, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t accumulate, int32_t type);
void vendor_lib_vec_reduce_min(int32_t queue, void *dst, int64_t dst_row, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t accumulate, int32_t type);

/* Dst = value. */
void vendor_lib_vec_fill(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, double value,
    int32_t rows, int32_t cols, int32_t type);
void vendor_lib_vec_fill_int(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col,
    int64_t value, int32_t rows, int32_t cols, int32_t type);

/* Dst = x, same dtype. */
void vendor_lib_vec_copy(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, const void *x,
    int64_t x_row, int64_t x_col, int32_t rows, int32_t cols, int32_t type);

/* Dst[row, col] = start + col. */
void vendor_lib_vec_iota(int32_t queue, void *dst, int64_t dst_row, int64_t dst_col, int64_t start,
    int32_t rows, int32_t cols, int32_t type);

/* At this place of queue src: count the flag (src, dst, number) up; waits while full. */
void vendor_lib_set_flag(int32_t src, int32_t dst, int32_t flag);

/* At this place of queue dst: wait until the flag is above 0, count it down. */
void vendor_lib_wait_flag(int32_t src, int32_t dst, int32_t flag);

/* The control core waits until all its queues are empty. */
void vendor_lib_sync(void);

/* Sync, and wait until every core's control core is here. */
void vendor_lib_barrier(void);

#endif /* DSA_SIM_H */
