/* F(4x4, 3x3) by Algorithm 1 of Wang et al. (2020): tiles are transformed one by one, and each of
 * the 36 values of a tile goes to a matrix of its own. A library multiplies the matrices. */

static void input_row(const float *x, long step, float *y)
{
    float a = x[0], b = x[step], c = x[2 * step], d = x[3 * step], e = x[4 * step];
    y[0] = 4 * a - 5 * c + e;
    y[1] = -4 * b - 4 * c + d + e;
    y[2] = 4 * b - 4 * c - d + e;
    y[3] = -2 * b - c + 2 * d + e;
    y[4] = 2 * b - c - 2 * d + e;
    y[5] = 4 * b - 5 * d + x[5 * step];
}

static void output_row(const float *x, long step, float *y)
{
    float plus = x[step] + x[2 * step], minus = x[step] - x[2 * step];
    float more = x[3 * step] + x[4 * step], less = x[3 * step] - x[4 * step];
    y[0] = x[0] + plus + more;
    y[1] = minus + 2 * less;
    y[2] = plus + 4 * more;
    y[3] = minus + 8 * less + x[5 * step];
}

/* data (N, C, H, W) to 36 matrices (C, N * TH * TW) */
void scatter(const float *restrict data, float *restrict matrices)
{
#pragma omp parallel for collapse(2)
    for (long c = 0; c < C; c++)
        for (long i = 0; i < N; i++)
            for (long ty = 0; ty < TH; ty++)
                for (long tx = 0; tx < TW; tx++) {
                    const float *plane = data + (i * C + c) * H * W;
                    long column = (i * TH + ty) * TW + tx;
                    float tile[36], rows[36], values[6];
                    for (long y = 0; y < 6; y++)
                        for (long x = 0; x < 6; x++) {
                            long h = 4 * ty + y - PT, w = 4 * tx + x - PL;
                            int inside = h >= 0 && h < H && w >= 0 && w < W;
                            tile[6 * y + x] = inside ? plane[h * W + w] : 0;
                        }
                    for (long x = 0; x < 6; x++) {
                        input_row(tile + x, 6, values);
                        for (long y = 0; y < 6; y++) rows[6 * y + x] = values[y];
                    }
                    for (long y = 0; y < 6; y++) {
                        input_row(rows + 6 * y, 1, values);
                        for (long x = 0; x < 6; x++)
                            matrices[((6 * y + x) * C + c) * (N * TH * TW) + column] = values[x];
                    }
                }
}

/* 36 matrices (K, N * TH * TW) to the output (N, K, OH, OW) */
void gather(const float *restrict matrices, const float *restrict bias, float *restrict output)
{
#pragma omp parallel for collapse(2)
    for (long k = 0; k < K; k++)
        for (long i = 0; i < N; i++)
            for (long ty = 0; ty < TH; ty++)
                for (long tx = 0; tx < TW; tx++) {
                    float *plane = output + (i * K + k) * OH * OW;
                    long column = (i * TH + ty) * TW + tx;
                    float tile[36], rows[24], values[4];
                    for (long e = 0; e < 36; e++)
                        tile[e] = matrices[(e * K + k) * (N * TH * TW) + column];
                    for (long x = 0; x < 6; x++) {
                        output_row(tile + x, 6, values);
                        for (long y = 0; y < 4; y++) rows[6 * y + x] = values[y];
                    }
                    for (long y = 0; y < 4 && 4 * ty + y < OH; y++) {
                        output_row(rows + 6 * y, 1, values);
                        for (long x = 0; x < 4 && 4 * tx + x < OW; x++)
                            plane[(4 * ty + y) * OW + 4 * tx + x] =
                                values[x] + (bias ? bias[k] : 0);
                    }
                }
}
