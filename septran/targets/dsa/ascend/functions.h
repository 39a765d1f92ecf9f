// The functions that a generated kernel has in front of itself, those of them that it calls: tiles by
// the calls of Ascend C. A command of the DSA is on a tile of any rows and columns; an instruction of
// the vector core goes over at most 255 repeats of 256 bytes, whose strides are blocks of 32 bytes.
// `prelude.py` takes them apart at the lines that begin with //@, and puts a name where @ is around a word.

//@ rows_in
template <typename T>
__aicore__ inline void rows_in(const LocalTensor<T> &dst, uint32_t dstRow, const GlobalTensor<T> &src, uint64_t srcRow, uint32_t rows, uint32_t bytes)
{
    // Rows of bytes from main memory, one piece where nothing lies between them.
    if (dstRow == bytes && srcRow == bytes) {
        bytes *= rows;
        rows = 1;
    }
    const uint32_t held = (bytes + 31) / 32 * 32;
    const bool together = dstRow % 32 == 0 && dstRow >= held && srcRow >= bytes;
    const uint32_t most = together ? 4095 : 1;
    for (uint32_t row = 0; row < rows; row += most) {
        const uint32_t count = rows - row < most ? rows - row : most;
        const uint32_t from = count > 1 ? srcRow - bytes : 0, to = count > 1 ? (dstRow - held) / 32 : 0;
        DataCopyPad(dst[row * dstRow / sizeof(T)], src[row * srcRow / sizeof(T)],
                    DataCopyExtParams(count, bytes, from, to, 0), DataCopyPadExtParams<T>(false, 0, 0, T(0)));
    }
}

//@ rows_out
template <typename T>
__aicore__ inline void rows_out(const GlobalTensor<T> &dst, uint64_t dstRow, const LocalTensor<T> &src, uint32_t srcRow, uint32_t rows, uint32_t bytes)
{
    // Rows of bytes to main memory.
    if (dstRow == bytes && srcRow == bytes) {
        bytes *= rows;
        rows = 1;
    }
    const uint32_t held = (bytes + 31) / 32 * 32;
    const bool together = srcRow % 32 == 0 && srcRow >= held && dstRow >= bytes;
    const uint32_t most = together ? 4095 : 1;
    for (uint32_t row = 0; row < rows; row += most) {
        const uint32_t count = rows - row < most ? rows - row : most;
        const uint32_t from = count > 1 ? (srcRow - held) / 32 : 0, to = count > 1 ? dstRow - bytes : 0;
        DataCopyPad(dst[row * dstRow / sizeof(T)], src[row * srcRow / sizeof(T)], DataCopyExtParams(count, bytes, from, to, 0));
    }
}

//@ fractals_in
template <typename T>
__aicore__ inline void fractals_in(const LocalTensor<T> &dst, uint32_t dstPitch, const GlobalTensor<T> &src, uint64_t srcPitch, uint32_t rows, uint32_t cols)
{
    // Rows of main memory as rows of fractals in L1, `dstPitch` elements apart: 16 rows are a matrix of their own.
    const bool together = 16 * srcPitch <= 65535 && dstPitch <= 65535;
    const uint32_t bands = rows / 16, most = together ? 4095 : 1;
    for (uint32_t band = 0; band < bands; band += most) {
        const uint32_t count = bands - band < most ? bands - band : most;
        DataCopy(dst[band * dstPitch], src[band * 16 * srcPitch],
                 Nd2NzParams(count, 16, cols, count > 1 ? 16 * srcPitch : 0, srcPitch, 16, 1, count > 1 ? dstPitch : 0));
    }
    if (rows % 16) {
        DataCopy(dst[bands * dstPitch], src[bands * 16 * srcPitch], Nd2NzParams(1, rows % 16, cols, 0, srcPitch, 16, 1, 0));
    }
}

//@ zeros_in
template <typename T>
__aicore__ inline void zeros_in(const LocalTensor<T> &dst, uint32_t dstRow, uint32_t rows, uint32_t bytes)
{
    // Rows of zeros in L1.
    InitConstValue(dst, InitConstValueParams<T>(rows, bytes / 32, rows > 1 ? (dstRow - bytes) / 32 : 0, T(0)));
}

//@ left_in
template <typename T>
__aicore__ inline void left_in(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint32_t pitch, uint32_t rows, uint32_t blocks)
{
    // A left operand, which L1 holds by rows: fractals row by row.
    constexpr uint32_t fractal = 512 / sizeof(T);
    for (uint32_t row = 0; row < rows; ++row) {
        LoadData(dst[row * blocks * fractal], src[row * pitch], LoadData2DParams(0, blocks, 1, 0, 0, false, 0));
    }
}

//@ left_turned_in
template <typename T>
__aicore__ inline void left_turned_in(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint32_t pitch, uint32_t bands, uint32_t blocks)
{
    // A left operand, which L1 holds by columns: its squares of 16 x 16 are turned.
    constexpr uint32_t square = 256, parts = sizeof(T) / 2;
    for (uint32_t col = 0; col < (blocks + parts - 1) / parts; ++col) {
        LoadDataWithTranspose(dst[col * bands * square], src[col * square],
                              LoadData2dTransposeParams(0, bands, pitch / square, parts - 1, 0));
    }
}

//@ right_in
template <typename T>
__aicore__ inline void right_in(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint32_t pitch, uint32_t rows, uint32_t blocks)
{
    // A right operand, which L1 holds by columns: the order in which L0B wants it.
    constexpr uint32_t fractal = 512 / sizeof(T);
    for (uint32_t block = 0; block < blocks; ++block) {
        LoadData(dst[block * rows * fractal], src[block * fractal], LoadData2DParams(0, rows, pitch / fractal, 0, 0, false, 0));
    }
}

//@ right_turned_in
template <typename T>
__aicore__ inline void right_turned_in(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint32_t pitch, uint32_t bands, uint32_t blocks)
{
    // A right operand, which L1 holds by rows: its squares of 16 x 16 are turned.
    constexpr uint32_t square = 256, parts = sizeof(T) / 2;
    const uint32_t squares = (blocks + parts - 1) / parts;
    for (uint32_t band = 0; band < bands; ++band) {
        LoadDataWithTranspose(dst[band * squares * square], src[band * pitch],
                              LoadData2dTransposeParams(0, squares, 1, 0, parts > 1 ? squares - 1 : 0));
    }
}

//@ multiply
template <typename C, typename T>
__aicore__ inline void multiply(const LocalTensor<C> &c, const LocalTensor<T> &a, const LocalTensor<T> &b, uint32_t m, uint32_t n, uint32_t k, bool accumulate)
{
    // c = a @ b, or c += a @ b.
    MmadParams params;
    params.m = m;
    params.n = n;
    params.k = k;
    params.cmatrixInitVal = !accumulate;
    Mmad(c, a, b, params);
    PipeBarrier<PIPE_M>();
}

//@ sums_out
template <typename T>
__aicore__ inline void sums_out(const GlobalTensor<T> &dst, uint64_t dstPitch, const LocalTensor<T> &src, uint32_t rows, uint32_t cols)
{
    // Sums of the cube as rows of main memory.
    Fixpipe(dst, src, FixpipeParamsV220(cols, rows, (rows + 15) / 16 * 16, dstPitch, false));
}

//@ spread
template <typename T>
__aicore__ inline void spread(const LocalTensor<T> &dst, const LocalTensor<T> &x, uint32_t count)
{
    // Each element of a column as a block of 32 bytes.
    Brcb(dst, x, (count + 7) / 8, BrcbRepeatParams(1, 8));
    PipeBarrier<PIPE_V>();
}

//@ number
template <typename T>
__aicore__ inline void number(const LocalTensor<T> &dst, T value)
{
    // A block of 32 bytes of one number.
    Duplicate(dst, value, 32 / sizeof(T));
    PipeBarrier<PIPE_V>();
}

//@ rows_fill
template <typename T>
__aicore__ inline void rows_fill(const LocalTensor<T> &dst, uint32_t dstRow, T value, uint32_t rows, uint32_t cols)
{
    if (dstRow == cols || rows == 1) {
        Duplicate(dst, value, rows * cols);
    } else {
        for (uint32_t row = 0; row < rows; ++row) {
            Duplicate(dst[row * dstRow], value, cols);
        }
    }
    PipeBarrier<PIPE_V>();
}

//@ rows_copy
template <typename T>
__aicore__ inline void rows_copy(const LocalTensor<T> &dst, uint32_t dstRow, const LocalTensor<T> &x, uint32_t xRow, uint32_t xCol, uint32_t rows, uint32_t cols)
{
    constexpr uint32_t width = 256 / sizeof(T), block = 32 / sizeof(T);
    const uint32_t most = dstRow % block || xRow % block ? 1 : 255;
    for (uint32_t row = 0; row < rows; row += most) {
        const uint32_t repeats = rows - row < most ? rows - row : most;
        for (uint32_t col = 0; col < cols; col += width) {
            const uint32_t mask = cols - col < width ? cols - col : width;
            Copy(dst[row * dstRow + col], x[row * xRow + col], mask, repeats, CopyRepeatParams(1, xCol, dstRow / block, xRow / block));
        }
    }
    PipeBarrier<PIPE_V>();
}

//@ rows_cast
template <typename T, typename U>
__aicore__ inline void rows_cast(const LocalTensor<T> &dst, uint32_t dstRow, const LocalTensor<U> &x, uint32_t xRow, RoundMode mode, uint32_t rows, uint32_t cols)
{
    if (dstRow == cols && xRow == cols) {
        cols *= rows;
        rows = 1;
    }
    for (uint32_t row = 0; row < rows; ++row) {
        Cast(dst[row * dstRow], x[row * xRow], mode, cols);
    }
    PipeBarrier<PIPE_V>();
}

//@ BINARY
template <typename T>
__aicore__ inline void rows_@name@(const LocalTensor<T> &dst, uint32_t dstRow, const LocalTensor<T> &x, uint32_t xRow, uint32_t xCol, const LocalTensor<T> &y, uint32_t yRow, uint32_t yCol, uint32_t rows, uint32_t cols)
{
    // A column stride of 0 repeats one block of equal elements.
    constexpr uint32_t width = 256 / sizeof(T), block = 32 / sizeof(T);
    if (rows == 1 || (dstRow == cols && xRow == cols * xCol && yRow == cols * yCol)) {
        const uint32_t count = rows * cols;
        for (uint32_t at = 0; at < count;) {
            uint32_t repeats = (count - at) / width, mask = width;
            repeats = repeats > 255 ? 255 : repeats;
            if (repeats == 0) {
                repeats = 1;
                mask = count - at;
            }
            @call@(dst[at], x[at * xCol], y[at * yCol], mask, repeats, BinaryRepeatParams(1, xCol, yCol, 8, 8 * xCol, 8 * yCol));
            at += repeats * mask;
        }
    } else {
        const bool strided = dstRow % block || xRow % block || yRow % block || dstRow / block > 255 || xRow / block > 255 || yRow / block > 255;
        const uint32_t most = strided ? 1 : 255;
        for (uint32_t row = 0; row < rows; row += most) {
            const uint32_t repeats = rows - row < most ? rows - row : most;
            for (uint32_t col = 0; col < cols; col += width) {
                const uint32_t mask = cols - col < width ? cols - col : width;
                @call@(dst[row * dstRow + col], x[row * xRow + col * xCol], y[row * yRow + col * yCol], mask, repeats,
                    BinaryRepeatParams(1, xCol, yCol, dstRow / block, xRow / block, yRow / block));
            }
        }
    }
    PipeBarrier<PIPE_V>();
}

//@ UNARY
template <typename T>
__aicore__ inline void rows_@name@(const LocalTensor<T> &dst, uint32_t dstRow, const LocalTensor<T> &x, uint32_t xRow, uint32_t xCol, @more@uint32_t rows, uint32_t cols)
{
    constexpr uint32_t width = 256 / sizeof(T), block = 32 / sizeof(T);
    if (rows == 1 || (dstRow == cols && xRow == cols * xCol)) {
        const uint32_t count = rows * cols;
        for (uint32_t at = 0; at < count;) {
            uint32_t repeats = (count - at) / width, mask = width;
            repeats = repeats > 255 ? 255 : repeats;
            if (repeats == 0) {
                repeats = 1;
                mask = count - at;
            }
            @call@(dst[at], x[at * xCol], @value@mask, repeats, UnaryRepeatParams(1, xCol, 8, 8 * xCol));
            at += repeats * mask;
        }
    } else {
        const bool strided = dstRow % block || xRow % block || dstRow / block > 255 || xRow / block > 255;
        const uint32_t most = strided ? 1 : 255;
        for (uint32_t row = 0; row < rows; row += most) {
            const uint32_t repeats = rows - row < most ? rows - row : most;
            for (uint32_t col = 0; col < cols; col += width) {
                const uint32_t mask = cols - col < width ? cols - col : width;
                @call@(dst[row * dstRow + col], x[row * xRow + col * xCol], @value@mask, repeats, UnaryRepeatParams(1, xCol, dstRow / block, xRow / block));
            }
        }
    }
    PipeBarrier<PIPE_V>();
}

//@ COUNTED
template <typename T>
__aicore__ inline void rows_@name@(const LocalTensor<T> &dst, uint32_t dstRow, const LocalTensor<T> &x, uint32_t xRow, uint32_t, uint32_t rows, uint32_t cols)
{
    if (dstRow == cols && xRow == cols) {
        cols *= rows;
        rows = 1;
    }
    for (uint32_t row = 0; row < rows; ++row) {
        @call@(dst[row * dstRow], @value@x[row * xRow], cols);
    }
    PipeBarrier<PIPE_V>();
}

//@ REDUCTION
template <typename T>
__aicore__ inline void rows_@name@(const LocalTensor<T> &dst, uint32_t dstRow, const LocalTensor<T> &x, uint32_t xRow, const LocalTensor<T> &parts, uint32_t rows, uint32_t cols)
{
    // The columns of a repeat at a time into `parts`, those of a row into its result: at once, or, where
    // they are more than a repeat has, in a second step whose results lie behind them.
    constexpr uint32_t width = 256 / sizeof(T), block = 32 / sizeof(T), room = @room@ / sizeof(T);
    const uint32_t chunks = (cols + width - 1) / width, pitch = (chunks + block - 1) / block * block;
    const uint32_t groups = (chunks + width - 1) / width;
    const uint32_t lastPitch = groups > 1 ? (groups + block - 1) / block * block : 0;
    const bool strided = xRow % block || xRow / block > 255;
    const uint32_t held = room / (pitch + lastPitch), most = strided ? 1 : held < 255 ? held : 255;
    for (uint32_t row = 0; row < rows; row += most) {
        const uint32_t repeats = rows - row < most ? rows - row : most;
        if (chunks == 1) {
            @call@(dst[row * dstRow], x[row * xRow], cols, repeats, dstRow, 1, xRow / block@order@);
        } else {
            for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
                const uint32_t col = chunk * width, mask = cols - col < width ? cols - col : width;
                @call@(parts[chunk], x[row * xRow + col], mask, repeats, pitch, 1, xRow / block@order@);
            }
            PipeBarrier<PIPE_V>();
            if (groups == 1) {
                @call@(dst[row * dstRow], parts, chunks, repeats, dstRow, 1, pitch / block@order@);
            } else {
                for (uint32_t group = 0; group < groups; ++group) {
                    const uint32_t first = group * width, mask = chunks - first < width ? chunks - first : width;
                    @call@(parts[repeats * pitch + group], parts[first], mask, repeats, lastPitch, 1, pitch / block@order@);
                }
                PipeBarrier<PIPE_V>();
                @call@(dst[row * dstRow], parts[repeats * pitch], groups, repeats, dstRow, 1, lastPitch / block@order@);
            }
        }
        PipeBarrier<PIPE_V>();
    }
}
