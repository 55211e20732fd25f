// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Problems and algorithms of cuBLASLt.
#include "launch/cublaslt_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "base/fp.h"

namespace culet {

namespace {

using cublaslt::ComputeType;
using cublaslt::DataType;
using cublaslt::Descriptor;
using cublaslt::Library;

/// The largest workspace an algorithm may ask for, and how many are asked for. 64 MiB is more than
/// any heuristic was seen to use; the library returns fewer than 48 where it knows fewer.
constexpr std::uint64_t kWorkspaceLimit = 64u << 20;
constexpr int kMaxAlgorithms = 48;

tl::unexpected<Error> no(std::string reason) {
  return fail(ErrorCode::unsupported, std::move(reason));
}

std::optional<int> data_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return DataType::kF64;
    case DType::f32:
    case DType::tf32:
      return DataType::kF32;
    case DType::f16:
      return DataType::kF16;
    case DType::bf16:
      return DataType::kBf16;
    case DType::e4m3:
      return DataType::kE4m3;
    case DType::e5m2:
      return DataType::kE5m2;
    case DType::s8:
      return DataType::kS8;
    case DType::s32:
      return DataType::kS32;
    default:
      return std::nullopt;
  }
}

bool is_f8(DType dtype) { return dtype == DType::e4m3 || dtype == DType::e5m2; }

struct Types {
  int compute = ComputeType::kF32;
  int scale = DataType::kF32;
};

/// The rules on dtypes that the library's tables state, coarsely: its heuristics have the last
/// word.
Result<Types> types_of(const Problem& p) {
  const auto pair = fmt::format("{}*{}>{}", to_string(p.a), to_string(p.b), to_string(p.d));
  if (!data_type(p.a) || !data_type(p.b) || !data_type(p.d)) {
    return no(fmt::format("cuBLASLt has no {}", pair));
  }
  if (p.a != p.b && !(is_f8(p.a) && is_f8(p.b))) {
    return no(fmt::format("{}: cuBLASLt wants both operands of one dtype", pair));
  }
  switch (p.a) {
    case DType::f64:
      if (p.d != DType::f64) return no(fmt::format("{}: f64 operands give f64", pair));
      return Types{ComputeType::kF64, DataType::kF64};
    case DType::s8:
      if (p.d != DType::s32) return no(fmt::format("{}: s8 operands give s32", pair));
      return Types{ComputeType::kS32, DataType::kS32};
    case DType::s32:
      return no(fmt::format("cuBLASLt has no {}", pair));
    case DType::tf32:
      return Types{ComputeType::kF32FastTf32, DataType::kF32};
    case DType::f16:
      if (p.accumulate != Accumulate::f16) return Types{};
      if (p.d != DType::f16) return no(fmt::format("{}: acc=f16 gives f16", pair));
      return Types{ComputeType::kF16, DataType::kF16};
    default:
      break;
  }
  if (p.accumulate == Accumulate::f16) return no("acc=f16 is for f16 operands");
  return Types{};
}

Result<void> store_scalar(double value, int scale_type, const char* name, unsigned char* out) {
  if (scale_type == DataType::kS32) {
    if (value != std::floor(value) || std::abs(value) > 2147483647.0) {
      return no(fmt::format("{}={} with s32 sums: only whole factors", name, value));
    }
    const auto integer = static_cast<std::int32_t>(value);
    std::memcpy(out, &integer, sizeof integer);
  } else if (scale_type == DataType::kF64) {
    std::memcpy(out, &value, sizeof value);
  } else if (scale_type == DataType::kF16) {
    const std::uint16_t half = to_f16_bits(value);
    std::memcpy(out, &half, sizeof half);
  } else {
    const auto single = static_cast<float>(value);
    std::memcpy(out, &single, sizeof single);
  }
  return {};
}

/// Sets an attribute; every value is passed by its own size.
template <typename T>
Result<void> set(cublaslt::Status (*setter)(Descriptor*, int, const void*, std::size_t),
                 Descriptor* descriptor, int attribute, const T& value) {
  return cublaslt::check(setter(descriptor, attribute, &value, sizeof value),
                         "setting a cuBLASLt attribute");
}

struct Shape {
  std::int64_t rows = 0, cols = 0, ld = 0, stride = 0;
};

Result<void> make_layout(const Library& library, const Problem& p, int type, const Shape& shape,
                         Descriptor* out) {
  if (auto ok = cublaslt::check(
          library.layout_init(out, sizeof *out, type, static_cast<std::uint64_t>(shape.rows),
                              static_cast<std::uint64_t>(shape.cols), shape.ld),
          "describing a matrix to cuBLASLt");
      !ok) {
    return ok;
  }
  if (p.batch == 1) return {};
  using L = cublaslt::LayoutAttribute;
  if (auto ok = set(library.layout_set, out, L::kBatchCount, static_cast<std::int32_t>(p.batch));
      !ok) {
    return ok;
  }
  return set(library.layout_set, out, L::kBatchStride, shape.stride);
}

/// What the epilogue is to the library.
struct Fusion {
  double alpha = 1, beta = 0;
  int c = -1, bias = -1;
  std::uint32_t epilogue = cublaslt::EpilogueValue::kDefault;
  int c_type = 0;
  int bias_type = 0;
};

Result<Fusion> fusion_of(const Problem& p, const Types& types) {
  using E = cublaslt::EpilogueValue;
  Fusion fusion;
  fusion.c_type = is_f8(p.d) ? DataType::kBf16 : *data_type(p.d);
  if (p.epilogue.is_identity()) return fusion;
  Epilogue::Affine affine;
  if (!p.epilogue.as_affine(&affine)) {
    return no("the epilogue is not alpha*acc + beta*c[m,n] + bias[n] under relu or gelu_tanh");
  }
  fusion.alpha = affine.alpha;
  fusion.beta = affine.beta;
  const auto& operands = p.epilogue.operands();
  if (affine.c >= 0 && affine.beta != 0) {
    fusion.c = affine.c;
    const DType dtype = operands[static_cast<std::size_t>(affine.c)].dtype;
    const bool fits = is_f8(p.d) ? dtype == DType::bf16 || dtype == DType::f16 : dtype == p.d;
    if (!fits) {
      return no(
          fmt::format("c is {}, cuBLASLt wants D's dtype {}", to_string(dtype), to_string(p.d)));
    }
    fusion.c_type = *data_type(dtype);
  } else {
    fusion.beta = 0;
  }
  const bool scalar_only = types.scale == DataType::kS32 || types.scale == DataType::kF64;
  if (affine.bias >= 0) {
    fusion.bias = affine.bias;
    const DType dtype = operands[static_cast<std::size_t>(affine.bias)].dtype;
    const bool f8_bias = is_f8(p.a) && (dtype == DType::bf16 || dtype == DType::f16);
    if (scalar_only || (dtype != p.d && !f8_bias)) {
      return no(fmt::format("a bias of {} for D of {} is not one cuBLASLt adds", to_string(dtype),
                            to_string(p.d)));
    }
    fusion.bias_type = *data_type(dtype);
    fusion.epilogue = E::kBias;
  }
  if (!affine.activation.empty()) {
    if (scalar_only) return no("cuBLASLt has activations for f16, bf16 and f32 sums only");
    const std::uint32_t bias = fusion.bias >= 0 ? E::kBias : 0;
    fusion.epilogue = (affine.activation == "relu" ? E::kRelu : E::kGelu) | bias;
  }
  return fusion;
}

Result<void> describe_operation(const Library& library, const Problem& p, const Types& types,
                                const Fusion& fusion, CublasltMatmul* out) {
  using A = cublaslt::DescAttribute;
  Descriptor* desc = &out->desc;
  if (auto ok = cublaslt::check(library.desc_init(desc, sizeof *desc, types.compute, types.scale),
                                "describing a product to cuBLASLt");
      !ok) {
    return ok;
  }
  constexpr std::int32_t kAsIs = 0, kTransposed = 1;
  const std::int32_t first = p.b_order == Order::row_major ? kAsIs : kTransposed;
  const std::int32_t second = p.a_order == Order::row_major ? kAsIs : kTransposed;
  Result<void> status = set(library.desc_set, desc, A::kTransA, first);
  if (status) status = set(library.desc_set, desc, A::kTransB, second);
  if (status && fusion.epilogue != cublaslt::EpilogueValue::kDefault) {
    status = set(library.desc_set, desc, A::kEpilogue, fusion.epilogue);
  }
  if (status && fusion.bias >= 0) {
    // The heuristics read the alignment they may assume off this address: 16 bytes. The real one
    // replaces it in each run.
    status = set(library.desc_set, desc, A::kBiasPointer, reinterpret_cast<const void*>(16));
    if (status) {
      status = set(library.desc_set, desc, A::kBiasDataType,
                   static_cast<std::int32_t>(fusion.bias_type));
    }
  }
  if (status && is_f8(p.a) && p.accumulate == Accumulate::fast) {
    status = set(library.desc_set, desc, A::kFastAccum, std::int8_t{1});
  }
  return status;
}

Result<void> describe_layouts(const Library& library, const Problem& p, int c_type,
                              CublasltMatmul* out) {
  const Shape b = p.b_order == Order::row_major ? Shape{p.n, p.k, p.ldb, p.stride_b}
                                                : Shape{p.k, p.n, p.ldb, p.stride_b};
  const Shape a = p.a_order == Order::row_major ? Shape{p.k, p.m, p.lda, p.stride_a}
                                                : Shape{p.m, p.k, p.lda, p.stride_a};
  const Shape d = {p.n, p.m, p.ldd, p.stride_d};
  Result<void> status = make_layout(library, p, *data_type(p.b), b, &out->first);
  if (status) status = make_layout(library, p, *data_type(p.a), a, &out->second);
  if (status) status = make_layout(library, p, c_type, d, &out->c);
  if (status) status = make_layout(library, p, *data_type(p.d), d, &out->d);
  return status;
}

Result<void> make_preference(const Library& library, const Problem& p, Descriptor* out) {
  using P = cublaslt::PreferenceAttribute;
  if (auto ok = cublaslt::check(library.preference_init(out, sizeof *out),
                                "describing a preference to cuBLASLt");
      !ok) {
    return ok;
  }
  Result<void> status = set(library.preference_set, out, P::kMaxWorkspace, kWorkspaceLimit);
  const auto align = [&](int attribute, int bytes) {
    if (status) {
      status = set(library.preference_set, out, attribute, static_cast<std::uint32_t>(bytes));
    }
  };
  align(P::kAlignA, std::min(p.align_b, 256));
  align(P::kAlignB, std::min(p.align_a, 256));
  align(P::kAlignC, std::min(p.align_d, 256));
  align(P::kAlignD, std::min(p.align_d, 256));
  // Partial sums of split k are added in the compute type (2), in D's memory (1) or in D's dtype
  // (4). The latter two round each partial sum to D's dtype, which is wrong by more than one
  // rounding where D is narrower than the accumulator; (1) also adds in no fixed order.
  std::uint32_t reductions = 2;
  if (bits(p.d) >= 32) reductions |= p.deterministic ? 4U : 1U | 4U;
  if (status) status = set(library.preference_set, out, P::kReductionMask, reductions);
  return status;
}

}  // namespace

Result<CublasltMatmul> CublasltMatmul::describe(const Problem& p, const Library& library) {
  if (p.is_empty() || p.k == 0) return no("nothing to multiply: a size is 0");
  if (p.batch > 2147483647) return no(fmt::format("a batch of {}", p.batch));
  const auto types = types_of(p);
  if (!types) return tl::unexpected<Error>(types.error());
  const auto fusion = fusion_of(p, *types);
  if (!fusion) return tl::unexpected<Error>(fusion.error());
  CublasltMatmul out;
  out.c_operand = fusion->c;
  out.bias_operand = fusion->bias;
  out.second_is_transposed = p.a_order == Order::col_major;
  Result<void> status = store_scalar(fusion->alpha, types->scale, "alpha", out.alpha);
  if (status) status = store_scalar(fusion->beta, types->scale, "beta", out.beta);
  if (status) status = describe_operation(library, p, *types, *fusion, &out);
  if (status) status = describe_layouts(library, p, fusion->c_type, &out);
  if (!status) return tl::unexpected<Error>(status.error());
  return out;
}

Result<void> CublasltMatmul::set_m(const Library& library, std::int64_t m) {
  using L = cublaslt::LayoutAttribute;
  const auto size = static_cast<std::uint64_t>(m);
  const int a_side = second_is_transposed ? L::kRows : L::kCols;
  Result<void> status = set(library.layout_set, &second, a_side, size);
  if (status) status = set(library.layout_set, &c, L::kCols, size);
  if (status) status = set(library.layout_set, &d, L::kCols, size);
  return status;
}

Result<std::int64_t> cublaslt_check(const Problem& problem, const Library& library,
                                    const cublaslt::Algorithm& algorithm, std::int64_t m) {
  auto matmul = CublasltMatmul::describe(problem, library);
  if (!matmul) return tl::unexpected<Error>(matmul.error());
  if (auto ok = matmul->set_m(library, m); !ok) return tl::unexpected<Error>(ok.error());
  auto handle = cublaslt::handle();
  if (!handle) return tl::unexpected<Error>(handle.error());
  cublaslt::HeuristicResult result;
  const auto status =
      library.algorithm_check(*handle, &matmul->desc, &matmul->first, &matmul->second, &matmul->c,
                              &matmul->d, &algorithm, &result);
  if (auto ok = cublaslt::check(status, fmt::format("cublasLtMatmulAlgoCheck at m={}", m)); !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  return static_cast<std::int64_t>(result.workspace_bytes);
}

Result<std::vector<CublasltAlgorithm>> cublaslt_algorithms(const Problem& problem,
                                                           const Library& library) {
  auto matmul = CublasltMatmul::describe(problem, library);
  if (!matmul) return tl::unexpected<Error>(matmul.error());
  auto handle = cublaslt::handle();
  if (!handle) return tl::unexpected<Error>(handle.error());
  Descriptor preference;
  if (auto ok = make_preference(library, problem, &preference); !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  std::vector<cublaslt::HeuristicResult> found(kMaxAlgorithms);
  int count = 0;
  const auto status =
      library.heuristic(*handle, &matmul->desc, &matmul->first, &matmul->second, &matmul->c,
                        &matmul->d, &preference, kMaxAlgorithms, found.data(), &count);
  if (status != cublaslt::kStatusSuccess || count == 0) {
    return no(cublaslt::describe(
        status == cublaslt::kStatusSuccess ? cublaslt::kStatusNotSupported : status,
        "cuBLASLt's heuristics know no algorithm"));
  }
  std::vector<CublasltAlgorithm> usable;
  std::set<std::vector<std::uint64_t>> seen;
  std::string refusal = "cuBLASLt's heuristics know no algorithm";
  for (int i = 0; i < count; ++i) {
    const cublaslt::HeuristicResult& result = found[static_cast<std::size_t>(i)];
    if (result.state != cublaslt::kStatusSuccess) continue;
    const auto* words = result.algorithm.data;
    if (!seen.insert(std::vector<std::uint64_t>(words, words + 8)).second) continue;
    CublasltAlgorithm item{result.algorithm, static_cast<std::int64_t>(result.workspace_bytes)};
    bool serves = true;
    for (const std::int64_t m : {problem.m_range.low, problem.m_range.high}) {
      if (m == problem.m || m == 0) continue;
      const auto workspace = cublaslt_check(problem, library, result.algorithm, m);
      serves = serves && workspace.has_value();
      if (workspace) item.workspace_bytes = std::max(item.workspace_bytes, *workspace);
      if (!workspace) refusal = workspace.error().message;
    }
    if (serves) usable.push_back(item);
  }
  if (usable.empty()) return no(refusal);
  return usable;
}

}  // namespace culet
