/* Algorithm 1 of the im2win thesis: the plain loops of a convolution in NCHW. The compiler
 * vectorizes what it can; threads share images and output channels. */
#include <stddef.h>

void direct_loops(const float *restrict data, const float *restrict weight,
                  const float *restrict bias, float *restrict output)
{
#pragma omp parallel for collapse(2)
    for (long i = 0; i < N; i++)
        for (long j = 0; j < K; j++)
            for (long m = 0; m < OH; m++)
                for (long n = 0; n < OW; n++) {
                    float sum = bias ? bias[j] : 0;
                    for (long r = 0; r < C; r++)
                        for (long u = 0; u < R; u++) {
                            long y = m * SH + u * DH - PT;
                            if (y < 0 || y >= H) continue;
                            for (long v = 0; v < S; v++) {
                                long x = n * SW + v * DW - PL;
                                if (PADDED && (x < 0 || x >= W)) continue;
                                sum += data[((i * C + r) * H + y) * W + x] *
                                       weight[((j * C + r) * R + u) * S + v];
                            }
                        }
                    output[((i * K + j) * OH + m) * OW + n] = sum;
                }
}
