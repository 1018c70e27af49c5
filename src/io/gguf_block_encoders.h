// Encoders of the block encodings of GGUF files other than Q8_0, with the rounding of ggml's reference quantisers
// without an importance matrix: each fits scales, and minima, to the values of a group by least squares over several
// trials.
#pragma once

#include <cstdint>

namespace spillway::gguf {

// Writes two bytes: `value` rounded to f16, which it returns.
float put_half(float value, uint8_t* out);

// Encode 32 values: [f16 scale][fifth bits][nibbles], and with a minimum [f16 scale][f16 minimum][fifth bits][nibbles].
void encode_q5_0(const float* values, uint8_t* block);
void encode_q5_1(const float* values, uint8_t* block);

// Encode 256 values in 8 groups with a scale and a minimum of 6 bits each: [f16 scale of scales][f16 of minima][12
// bytes of those][fifth bits, if there are][nibbles].
void encode_q4_k(const float* values, uint8_t* block);
void encode_q5_k(const float* values, uint8_t* block);

// Encodes 256 values in 16 groups with a scale of 8 bits each: [nibbles][fifth and sixth bits][scales][f16 scale of
// scales].
void encode_q6_k(const float* values, uint8_t* block);

}  // namespace spillway::gguf
