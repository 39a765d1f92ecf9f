/* The C library of the simulated NPU. Calls append to a queue and return 0, but npu_sync_all and
   npu_core_barrier. Strides are bytes, of rows of blocks where a side is blocked (nz). Element types:
   0 bool, 1 int8, 2 uint8, 3 int16, 4 uint16
   5 int32, 6 uint32, 7 int64, 8 uint64, 9 float16
   10 bfloat16, 11 float32, 12 float64, 13 float8_e4m3fn, 14 float8_e5m2 */
#ifndef NPU_CUBE_H
#define NPU_CUBE_H

#include <stdint.h>

/* Address of a byte of a memory of this core. */
void *npu_l1(int64_t offset);
void *npu_ub(int64_t offset);
void *npu_l0c(int64_t offset);
void *npu_l0a(int64_t offset);
void *npu_l0b(int64_t offset);
void *npu_vreg(int64_t offset);

/* Copy rows of bytes from one memory to another. */
int npu_move(const void *src, int64_t src_stride, void *dst, int64_t dst_stride, int64_t rows,
    int64_t row_bytes, int queue);

/* Copy row-major elements into blocks (fractal layout). */
int npu_move_nd2nz(const void *src, int64_t src_stride, void *dst, int64_t dst_stride, int64_t rows,
    int64_t cols, int item_bytes, int block_rows, int block_cols, int queue);

/* Copy blocks (fractal layout) into row-major elements. */
int npu_move_nz2nd(const void *src, int64_t src_stride, void *dst, int64_t dst_stride, int64_t rows,
    int64_t cols, int item_bytes, int block_rows, int block_cols, int queue);

/* Zero rows of bytes. */
int npu_zero(void *dst, int64_t dst_stride, int64_t rows, int64_t row_bytes, int queue);

/* C = a @ b, or c += a @ b; layouts are the instruction's, in the machine file. */
int npu_cube_bool(const void *a, int64_t a_stride, int a_transposed, const void *b,
    int64_t b_stride, int b_transposed, void *c, int64_t c_stride, int c_type, int m, int k, int n,
    int accumulate, int queue);
int npu_cube_int8(const void *a, int64_t a_stride, int a_transposed, const void *b,
    int64_t b_stride, int b_transposed, void *c, int64_t c_stride, int c_type, int m, int k, int n,
    int accumulate, int queue);
int npu_cube_uint8(const void *a, int64_t a_stride, int a_transposed, const void *b,
    int64_t b_stride, int b_transposed, void *c, int64_t c_stride, int c_type, int m, int k, int n,
    int accumulate, int queue);
int npu_cube_int16(const void *a, int64_t a_stride, int a_transposed, const void *b,
    int64_t b_stride, int b_transposed, void *c, int64_t c_stride, int c_type, int m, int k, int n,
    int accumulate, int queue);
int npu_cube_uint16(const void *a, int64_t a_stride, int a_transposed, const void *b,
    int64_t b_stride, int b_transposed, void *c, int64_t c_stride, int c_type, int m, int k, int n,
    int accumulate, int queue);
int npu_cube_int32(const void *a, int64_t a_stride, int a_transposed, const void *b,
    int64_t b_stride, int b_transposed, void *c, int64_t c_stride, int c_type, int m, int k, int n,
    int accumulate, int queue);
int npu_cube_uint32(const void *a, int64_t a_stride, int a_transposed, const void *b,
    int64_t b_stride, int b_transposed, void *c, int64_t c_stride, int c_type, int m, int k, int n,
    int accumulate, int queue);
int npu_cube_int64(const void *a, int64_t a_stride, int a_transposed, const void *b,
    int64_t b_stride, int b_transposed, void *c, int64_t c_stride, int c_type, int m, int k, int n,
    int accumulate, int queue);
int npu_cube_uint64(const void *a, int64_t a_stride, int a_transposed, const void *b,
    int64_t b_stride, int b_transposed, void *c, int64_t c_stride, int c_type, int m, int k, int n,
    int accumulate, int queue);
int npu_cube_float16(const void *a, int64_t a_stride, int a_transposed, const void *b,
    int64_t b_stride, int b_transposed, void *c, int64_t c_stride, int c_type, int m, int k, int n,
    int accumulate, int queue);
int npu_cube_bfloat16(const void *a, int64_t a_stride, int a_transposed, const void *b,
    int64_t b_stride, int b_transposed, void *c, int64_t c_stride, int c_type, int m, int k, int n,
    int accumulate, int queue);
int npu_cube_float32(const void *a, int64_t a_stride, int a_transposed, const void *b,
    int64_t b_stride, int b_transposed, void *c, int64_t c_stride, int c_type, int m, int k, int n,
    int accumulate, int queue);
int npu_cube_float64(const void *a, int64_t a_stride, int a_transposed, const void *b,
    int64_t b_stride, int b_transposed, void *c, int64_t c_stride, int c_type, int m, int k, int n,
    int accumulate, int queue);
int npu_cube_float8_e4m3fn(const void *a, int64_t a_stride, int a_transposed, const void *b,
    int64_t b_stride, int b_transposed, void *c, int64_t c_stride, int c_type, int m, int k, int n,
    int accumulate, int queue);
int npu_cube_float8_e5m2(const void *a, int64_t a_stride, int a_transposed, const void *b,
    int64_t b_stride, int b_transposed, void *c, int64_t c_stride, int c_type, int m, int k, int n,
    int accumulate, int queue);

/* Dst = function(x), element by element. */
int npu_vneg(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);
int npu_vabs(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);
int npu_vexp(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);
int npu_vexp2(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);
int npu_vlog(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);
int npu_vlog2(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);
int npu_vsqrt(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);
int npu_vrsqrt(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);
int npu_vtanh(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);
int npu_vsigmoid(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);
int npu_verf(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);
int npu_vsin(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);
int npu_vcos(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);
int npu_vfloor(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);
int npu_vceil(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);
int npu_vround(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);
int npu_vnot(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);
int npu_vinvert(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);

/* Dst = function(x, y); comparisons write bool. */
int npu_vadd(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vsubtract(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vmultiply(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vdivide(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vfloor_divide(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vremainder(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vpower(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vmaximum(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vminimum(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vand(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vor(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vxor(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vleft_shift(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vright_shift(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vless(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vless_equal(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vgreater(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vgreater_equal(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vequal(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);
int npu_vnot_equal(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, const void *y, int64_t y_row, int64_t y_col, int rows, int cols, int type,
    int queue);

/* Dst = function(x, value), or function(value, x). */
int npu_vadds(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vsubtracts(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vmultiplys(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vdivides(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vfloor_divides(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vremainders(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vpowers(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vmaximums(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vminimums(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vands(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vors(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vxors(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vleft_shifts(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vright_shifts(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vlesss(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vless_equals(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vgreaters(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vgreater_equals(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vequals(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);
int npu_vnot_equals(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, double value, int reversed, int rows, int cols, int type, int queue);

/* The same in integers, whose values a double cannot hold. */
int npu_vaddsi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vsubtractsi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vmultiplysi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vdividesi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vfloor_dividesi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vremaindersi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vpowersi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vmaximumsi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vminimumsi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vandsi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vorsi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vxorsi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vleft_shiftsi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vright_shiftsi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vlesssi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vless_equalsi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vgreatersi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vgreater_equalsi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vequalsi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);
int npu_vnot_equalsi(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int64_t value, int reversed, int rows, int cols, int type, int queue);

/* Dst = x where the bool c holds, else y. */
int npu_vselect(void *dst, int64_t dst_row, int64_t dst_col, const void *c, int64_t c_row,
    int64_t c_col, const void *x, int64_t x_row, int64_t x_col, const void *y, int64_t y_row,
    int64_t y_col, int rows, int cols, int type, int queue);

/* Dst = x in another dtype (of `type`), rounded to nearest even. */
int npu_vcast(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int dst_type, int type, int queue);

/* Dst[row] = reduction of x[row, :]. */
int npu_vreduce_sum(void *dst, int64_t dst_row, const void *x, int64_t x_row, int64_t x_col,
    int rows, int cols, int accumulate, int type, int queue);
int npu_vreduce_max(void *dst, int64_t dst_row, const void *x, int64_t x_row, int64_t x_col,
    int rows, int cols, int accumulate, int type, int queue);
int npu_vreduce_min(void *dst, int64_t dst_row, const void *x, int64_t x_row, int64_t x_col,
    int rows, int cols, int accumulate, int type, int queue);

/* Dst = value. */
int npu_vfill(void *dst, int64_t dst_row, int64_t dst_col, double value, int rows, int cols,
    int type, int queue);
int npu_vfilli(void *dst, int64_t dst_row, int64_t dst_col, int64_t value, int rows, int cols,
    int type, int queue);

/* Dst = x, same dtype. */
int npu_vcopy(void *dst, int64_t dst_row, int64_t dst_col, const void *x, int64_t x_row,
    int64_t x_col, int rows, int cols, int type, int queue);

/* Dst[row, col] = start + col. */
int npu_viota(void *dst, int64_t dst_row, int64_t dst_col, int64_t start, int rows, int cols,
    int type, int queue);

/* At this place of queue src: count the flag (src, dst, number) up; waits while full. */
int npu_set_flag(int src, int dst, int flag);

/* At this place of queue dst: wait until the flag is above 0, count it down. */
int npu_wait_flag(int src, int dst, int flag);

/* The control core waits until all its queues are empty. */
int npu_sync_all(void);

/* Sync, and wait until every core's control core is here. */
int npu_core_barrier(void);

#endif /* NPU_CUBE_H */
