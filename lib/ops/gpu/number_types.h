// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define GANTRAIN_BOTH __host__ __device__ __forceinline__
#else
#define GANTRAIN_BOTH inline
#endif

// The types that tensors have, for kernels that compile for a GPU and for the host.
namespace gantrain::cuda_kernels {

enum class Type { kFloat64, kFloat32, kFloat16, kBFloat16 };

// A 16-bit number, of which kernels only load, store and convert the bits.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

// The type in which a kernel computes with numbers of type T.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// The conversions of a host without instructions for them. Rounding is to the nearest, ties to
// even.
namespace on_host {

inline float from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float widened(BFloat16 x) { return from_bits(uint32_t{x.bits} << 16); }
inline BFloat16 rounded_bfloat16(float x) {
  const uint32_t bits = bits_of(x);
  if (x != x) return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
}

inline float widened(Half x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000U} << 16;
  const uint32_t rest = x.bits & 0x7FFFU;
  if (rest >= 0x7C00) return from_bits(sign | 0x7F800000 | ((rest & 0x3FF) << 13));
  // Shifted into place the exponent is 112 too small; the product also normalises subnormals.
  return from_bits(sign | bits_of(from_bits(rest << 13) * 0x1p112F));
}
inline Half rounded_half(float x) {
  const uint32_t bits = bits_of(x);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t rest = bits & 0x7FFFFFFF;
  if (rest > 0x7F800000) return {static_cast<uint16_t>(sign | 0x7E00)};
  if (rest >= 0x477FF000) return {static_cast<uint16_t>(sign | 0x7C00)};  // 65520 and above
  if (rest < 0x38800000) {  // below 2^-14: a whole number of 2^-24, rounded by the addition
    const float sum = from_bits(rest) + 0.5F;
    return {static_cast<uint16_t>(sign | (bits_of(sum) - 0x3F000000))};
  }
  const uint32_t even = rest + 0xFFF + ((rest >> 13) & 1);
  return {static_cast<uint16_t>(sign | ((even >> 13) - (112U << 10)))};
}

}  // namespace on_host

GANTRAIN_BOTH double widened(double x) { return x; }
GANTRAIN_BOTH float widened(float x) { return x; }
GANTRAIN_BOTH float widened(Half x) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(x.bits));
#else
  return on_host::widened(x);
#endif
}
GANTRAIN_BOTH float widened(BFloat16 x) {
#ifdef __CUDA_ARCH__
  return __bfloat162float(__ushort_as_bfloat16(x.bits));
#else
  return on_host::widened(x);
#endif
}

// Rounds a number of type Wide<T> to T.
template <class T>
GANTRAIN_BOTH T rounded(Wide<T> x) {
  if constexpr (std::is_same_v<T, Half>) {
#ifdef __CUDA_ARCH__
    return {__half_as_ushort(__float2half_rn(x))};
#else
    return on_host::rounded_half(x);
#endif
  } else if constexpr (std::is_same_v<T, BFloat16>) {
#ifdef __CUDA_ARCH__
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
    return on_host::rounded_bfloat16(x);
#endif
  } else {
    return x;
  }
}

// What is left of a number that was stored as T.
template <class T>
GANTRAIN_BOTH Wide<T> as_stored(Wide<T> x) {
  return widened(rounded<T>(x));
}

// As many numbers as one 16-byte access moves.
template <class T>
inline constexpr int kPackSize = static_cast<int>(16 / sizeof(T));

// Numbers in 16 bytes.
inline int pack_size(Type type) {
  return type == Type::kFloat64   ? kPackSize<double>
         : type == Type::kFloat32 ? kPackSize<float>
                                  : kPackSize<Half>;
}

template <class... Pointers>
bool aligned_for_packs(const Pointers*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

// Numbers that are loaded and stored by one access; its address is a multiple of its size.
template <class T, int kCount = kPackSize<T>>
struct alignas(sizeof(T) * kCount) Pack {
  T numbers[kCount];
};

#ifdef __CUDACC__
template <int kBytes>
using Word = std::conditional_t<
    kBytes == 16,
    uint4,
    std::conditional_t<kBytes == 8, uint2, std::conditional_t<kBytes == 4, uint32_t, uint16_t>>>;
#endif

template <class T, int kCount>
GANTRAIN_BOTH Pack<T, kCount> load_pack(const T* from) {
#ifdef __CUDA_ARCH__
  const auto word = *reinterpret_cast<const Word<sizeof(T) * kCount>*>(from);
  Pack<T, kCount> pack;
  memcpy(&pack, &word, sizeof(pack));
  return pack;
#else
  return *reinterpret_cast<const Pack<T, kCount>*>(from);
#endif
}
#ifdef __CUDACC__
// Written as instructions: where both sides of a branch store the first number of a word, the
// compiler moves that store before the branch and leaves the others alone.
__device__ __forceinline__ void store_word(void* to, const uint4& word) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
               "r"(word.x),
               "r"(word.y),
               "r"(word.z),
               "r"(word.w)
               : "memory");
}
__device__ __forceinline__ void store_word(void* to, const uint2& word) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)),
               "r"(word.x),
               "r"(word.y)
               : "memory");
}
template <class Small>
__device__ __forceinline__ void store_word(void* to, Small word) {
  *static_cast<Small*>(to) = word;
}
#endif

// `to` lies in global memory, not in shared memory.
template <class T, int kCount>
GANTRAIN_BOTH void store_pack(T* to, const Pack<T, kCount>& pack) {
#ifdef __CUDA_ARCH__
  Word<sizeof(T) * kCount> word;
  memcpy(&word, &pack, sizeof(pack));
  store_word(to, word);
#else
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
#endif
}

template <class T>
struct TypeTag {
  using type = T;
};
// Calls work(TypeTag<T>{}) with the T that `type` stands for.
template <class Work>
void with_type(Type type, Work&& work) {
  switch (type) {
    case Type::kFloat64:
      return work(TypeTag<double>{});
    case Type::kFloat32:
      return work(TypeTag<float>{});
    case Type::kFloat16:
      return work(TypeTag<Half>{});
    case Type::kBFloat16:
      return work(TypeTag<BFloat16>{});
  }
}

}  // namespace gantrain::cuda_kernels
