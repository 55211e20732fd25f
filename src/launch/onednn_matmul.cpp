// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Descriptors of a oneDNN matmul.
#include "launch/onednn_matmul.h"

#include <fmt/format.h>

#include <array>

namespace culet {

namespace {

int dnn_dtype(DType dtype) { return dtype == DType::bf16 ? dnn::kBf16 : dnn::kF32; }

/// Dimensions and strides of an operand, with the batch in front where there is one.
struct Shape {
  std::array<dnn::Dim, 3> dims{};
  std::array<dnn::Dim, 3> strides{};
  int rank = 0;
};

Shape matrix(std::int64_t rows, std::int64_t columns, Order order, std::int64_t ld,
             std::int64_t batch, std::int64_t batch_stride, bool batched) {
  Shape shape;
  const auto add = [&](std::int64_t dim, std::int64_t stride) {
    shape.dims[static_cast<std::size_t>(shape.rank)] = dim;
    shape.strides[static_cast<std::size_t>(shape.rank)] = stride;
    ++shape.rank;
  };
  const bool row_major = order == Order::row_major;
  if (batched) {
    // An entry that all share is a dimension of 1; its stride only has to be a possible one.
    const bool shared = batch_stride == 0;
    add(shared ? 1 : batch, shared ? ld * (row_major ? rows : columns) : batch_stride);
  }
  add(rows, row_major ? ld : 1);
  add(columns, row_major ? 1 : ld);
  return shape;
}

}  // namespace

Config OneDnnVariant::config(const Problem& problem) const {
  Config config;
  config.set("weights", packed ? "packed" : "plain");
  if (problem.batch > 1) config.set("batch", loop ? "loop" : "3d");
  return config;
}

Result<OneDnnVariant> OneDnnVariant::parse(const Config& config) {
  OneDnnVariant variant;
  const std::string_view weights = config.get("weights");
  const std::string_view batch = config.get("batch");
  if ((weights != "packed" && weights != "plain") ||
      (config.has("batch") && batch != "loop" && batch != "3d")) {
    return fail(ErrorCode::build_failed, fmt::format("onednn: no variant '{}'", config.text()));
  }
  variant.packed = weights == "packed";
  variant.loop = batch == "loop";
  return variant;
}

bool onednn_fuses(const Problem& problem) {
  if (problem.epilogue.is_identity()) return true;
  Epilogue::Affine affine;
  if (!problem.epilogue.as_affine(&affine)) return false;
  // The library scales the bias along with the accumulator, and adds only to D itself.
  if (affine.alpha != 1 || affine.beta != 0 || affine.c >= 0) return false;
  if (affine.bias < 0) return true;
  const DType bias = problem.epilogue.operands()[static_cast<std::size_t>(affine.bias)].dtype;
  return bias == DType::f32 || (bias == DType::bf16 && problem.a == DType::bf16);
}

Result<void> onednn_threads_settable(const OneDnn& library, int threads) {
  constexpr unsigned kSequential = 1;
  if (library.omp_set_num_threads != nullptr) return {};
  if (library.version_info()->cpu_runtime == kSequential && threads == 1) return {};
  return fail(ErrorCode::unsupported,
              fmt::format("{} is built without OpenMP: its threads cannot be set to {}",
                          library.path, threads));
}

bool OneDnnMatmul::describe_operands(const Problem& p, const OneDnnVariant& variant,
                                     std::int64_t m) {
  const bool batched = p.batch > 1 && !variant.loop;
  const auto describe = [&](dnn::MemoryDesc* md, const Shape& shape, DType dtype) {
    return library_.memory_desc_init_by_strides(md, shape.rank, shape.dims.data(), dnn_dtype(dtype),
                                                shape.strides.data()) == dnn::kSuccess;
  };
  const Shape a = matrix(m, p.k, p.a_order, p.lda, p.batch, p.stride_a, batched);
  const Shape b = matrix(p.k, p.n, p.b_order, p.ldb, p.batch, p.stride_b, batched);
  const Shape d = matrix(m, p.n, Order::row_major, p.ldd, p.batch, p.stride_d, batched);
  if (!describe(&src_, a, p.a) || !describe(&plain_weights_, b, p.b) || !describe(&dst_, d, p.d)) {
    return false;
  }
  if (variant.packed &&
      library_.memory_desc_init_by_tag(&any_weights_, b.rank, b.dims.data(), dnn_dtype(p.b),
                                       dnn::kTagAny) != dnn::kSuccess) {
    return false;
  }
  Epilogue::Affine affine;
  has_bias_ = !p.epilogue.is_identity() && p.epilogue.as_affine(&affine) && affine.bias >= 0;
  if (!has_bias_) return true;
  const Shape bias = matrix(1, p.n, Order::row_major, p.n, 1, 0, batched);
  return describe(&bias_, bias, p.epilogue.operands()[static_cast<std::size_t>(affine.bias)].dtype);
}

bool OneDnnMatmul::describe_primitive(const Problem& problem, const dnn::MemoryDesc* weights) {
  dnn::MatmulDesc matmul;
  if (library_.matmul_desc_init(&matmul, &src_, weights, bias(), &dst_) != dnn::kSuccess) {
    return false;
  }
  dnn::Attr attr = nullptr;
  dnn::PostOps post_ops = nullptr;
  bool good = library_.attr_create(&attr) == dnn::kSuccess;
  // The library's own scratchpad belongs to the thread that made the primitive.
  good = good && library_.attr_set_scratchpad_mode(attr, dnn::kScratchpadUser) == dnn::kSuccess;
  Epilogue::Affine affine;
  if (good && problem.epilogue.as_affine(&affine) && !affine.activation.empty()) {
    const int algorithm = affine.activation == "relu" ? dnn::kEltwiseRelu : dnn::kEltwiseGeluTanh;
    good =
        library_.post_ops_create(&post_ops) == dnn::kSuccess &&
        library_.post_ops_append_eltwise(post_ops, 1.0F, algorithm, 0.0F, 0.0F) == dnn::kSuccess &&
        library_.attr_set_post_ops(attr, post_ops) == dnn::kSuccess;
  }
  good = good && library_.primitive_desc_create(&descriptor_, &matmul, attr, library_.engine,
                                                nullptr) == dnn::kSuccess;
  if (post_ops != nullptr) library_.post_ops_destroy(post_ops);
  if (attr != nullptr) library_.attr_destroy(attr);
  return good;
}

Result<std::unique_ptr<OneDnnMatmul>> OneDnnMatmul::describe(const OneDnn& library,
                                                             const Problem& problem,
                                                             const OneDnnVariant& variant,
                                                             std::int64_t m,
                                                             const dnn::MemoryDesc* weights) {
  std::unique_ptr<OneDnnMatmul> matmul(new OneDnnMatmul(library));
  if (!matmul->describe_operands(problem, variant, m)) {
    return fail(ErrorCode::unsupported, "the library has no descriptor for these operands");
  }
  if (weights == nullptr) {
    weights = variant.packed ? &matmul->any_weights_ : &matmul->plain_weights_;
  }
  if (!matmul->describe_primitive(problem, weights)) {
    return fail(ErrorCode::unsupported, "the library has no matmul for this problem");
  }
  return matmul;
}

OneDnnMatmul::~OneDnnMatmul() {
  if (primitive_ != nullptr) library_.primitive_destroy(primitive_);
  if (descriptor_ != nullptr) library_.primitive_desc_destroy(descriptor_);
}

std::string OneDnnMatmul::implementation() const {
  const char* name = nullptr;
  const int status =
      library_.primitive_desc_query(descriptor_, dnn::kQueryImplInfo, 0, static_cast<void*>(&name));
  return status == dnn::kSuccess && name != nullptr ? name : "unknown";
}

const dnn::MemoryDesc* OneDnnMatmul::weights() const {
  return library_.primitive_desc_query_md(descriptor_, dnn::kQueryWeightsMd, 0);
}

const dnn::MemoryDesc* OneDnnMatmul::scratchpad() const {
  return library_.primitive_desc_query_md(descriptor_, dnn::kQueryScratchpadMd, 0);
}

std::size_t OneDnnMatmul::weights_bytes() const { return library_.memory_desc_get_size(weights()); }

std::size_t OneDnnMatmul::scratchpad_bytes() const {
  return library_.memory_desc_get_size(scratchpad());
}

Result<void> OneDnnMatmul::create() {
  if (library_.primitive_create(&primitive_, descriptor_) == dnn::kSuccess) return {};
  return fail(ErrorCode::build_failed, "oneDNN could not generate its code");
}

}  // namespace culet
