// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// oneDNN's matmul. A primitive is made for every m of the problem's range when the step is loaded;
// a run sets the pointers of memory objects it has for itself and executes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "launch/extra_operands.h"
#include "launch/free_list.h"
#include "launch/library_steps.h"
#include "launch/onednn_matmul.h"
#include "launch/split.h"

namespace culet {

namespace {

/// A memory object of the library and what it points to. Setting its pointer costs about 100 ns and
/// writes zeros into the padding of a packed layout, so it is done only for another pointer.
struct Bound {
  dnn::Memory memory = nullptr;
  const void* at = nullptr;

  bool point_to(const OneDnn& library, const void* handle) {
    if (handle == at) return true;
    at = handle;
    return library.memory_set_data_handle(memory, const_cast<void*>(handle)) == dnn::kSuccess;
  }
};

/// The library's objects that one run needs at one m.
struct Objects {
  Bound src, weights, bias, dst, scratch;
};

/// All that one run needs, for every m.
class RunState {
 public:
  static std::unique_ptr<RunState> make(const OneDnn& library,
                                        const std::vector<std::unique_ptr<OneDnnMatmul>>& matmuls);
  explicit RunState(const OneDnn& library) : library_(library) {}
  ~RunState();
  RunState(const RunState&) = delete;
  RunState& operator=(const RunState&) = delete;

  dnn::Stream stream = nullptr;
  std::vector<Objects> objects;

 private:
  const OneDnn& library_;
  AlignedBuffer scratch_;
};

std::unique_ptr<RunState> RunState::make(
    const OneDnn& library, const std::vector<std::unique_ptr<OneDnnMatmul>>& matmuls) {
  auto state = std::make_unique<RunState>(library);
  std::size_t scratch = 0;
  for (const auto& matmul : matmuls) scratch = std::max(scratch, matmul->scratchpad_bytes());
  state->scratch_ = AlignedBuffer(scratch);
  bool good = scratch == 0 || state->scratch_.data() != nullptr;
  good = good && library.stream_create(&state->stream, library.engine, dnn::kStreamDefault) ==
                     dnn::kSuccess;
  const auto create = [&](Bound* bound, const dnn::MemoryDesc* md, void* handle) {
    bound->at = handle;
    good =
        good && library.memory_create(&bound->memory, md, library.engine, handle) == dnn::kSuccess;
  };
  state->objects.resize(matmuls.size());
  for (std::size_t i = 0; i < matmuls.size(); ++i) {
    Objects& objects = state->objects[i];
    create(&objects.src, matmuls[i]->src(), nullptr);
    create(&objects.weights, matmuls[i]->weights(), nullptr);
    create(&objects.dst, matmuls[i]->dst(), nullptr);
    create(&objects.scratch, matmuls[i]->scratchpad(), state->scratch_.data());
    if (matmuls[i]->bias() != nullptr) create(&objects.bias, matmuls[i]->bias(), nullptr);
  }
  return good ? std::move(state) : nullptr;
}

RunState::~RunState() {
  for (const Objects& o : objects) {
    for (const Bound& bound : {o.src, o.weights, o.bias, o.dst, o.scratch}) {
      if (bound.memory != nullptr) library_.memory_destroy(bound.memory);
    }
  }
  if (stream != nullptr) library_.stream_destroy(stream);
}

class OneDnnStep final : public LoadedStep {
 public:
  OneDnnStep(const OneDnn& library, const Problem& problem, const OneDnnVariant& variant,
             int threads)
      : library_(library), problem_(problem), variant_(variant), threads_(threads), states_([this] {
          return RunState::make(library_, matmuls_);
        }) {}
  ~OneDnnStep() override {
    if (reorder_ != nullptr) library_.primitive_destroy(reorder_);
  }

  Result<void> prepare(std::int64_t packed_b_bytes);
  Result<void> run(const StepPointers& pointers) const override;
  Result<void> pack(const void* b, void* packed, Stream stream) const override;

 private:
  /// Calls of the primitive per run, and B's in one run.
  std::int64_t entries() const { return variant_.loop ? problem_.batch : 1; }
  bool own_b() const { return variant_.loop && problem_.batch > 1 && problem_.stride_b != 0; }
  std::int64_t weights_bytes() const {
    return static_cast<std::int64_t>(matmuls_.front()->weights_bytes());
  }
  Result<void> make_reorder();
  bool execute(RunState& state, std::size_t index, const StepPointers& pointers,
               std::int64_t entry) const;

  const OneDnn& library_;
  Problem problem_;
  OneDnnVariant variant_;
  int threads_;
  int bias_operand_ = -1;
  std::vector<std::unique_ptr<OneDnnMatmul>> matmuls_;  ///< for m_range.low and on
  dnn::Primitive reorder_ = nullptr;
  mutable FreeList<RunState> states_;
};

Result<void> OneDnnStep::prepare(std::int64_t packed_b_bytes) {
  const OmpThreads omp(library_, threads_);
  Epilogue::Affine affine;
  if (problem_.epilogue.as_affine(&affine)) bias_operand_ = affine.bias;
  // The layout of packed weights is the one chosen for the m that was timed; all others keep to it.
  auto timed = OneDnnMatmul::describe(library_, problem_, variant_, problem_.m);
  if (!timed) return tl::unexpected(timed.error());
  const dnn::MemoryDesc* layout = variant_.packed ? (*timed)->weights() : nullptr;
  for (std::int64_t m = problem_.m_range.low; m <= problem_.m_range.high; ++m) {
    auto matmul =
        OneDnnMatmul::describe(library_, problem_, variant_, std::max<std::int64_t>(m, 1), layout);
    if (!matmul) return tl::unexpected(matmul.error());
    if (auto created = (*matmul)->create(); !created) return tl::unexpected(created.error());
    matmuls_.push_back(std::move(*matmul));
  }
  if (variant_.packed) {
    const std::int64_t needed = weights_bytes() * (own_b() ? problem_.batch : 1);
    if (needed != packed_b_bytes) {
      return fail(ErrorCode::build_failed,
                  fmt::format("packed weights take {} bytes here, not {}", needed, packed_b_bytes));
    }
    if (auto made = make_reorder(); !made) return tl::unexpected(made.error());
  }
  if (!states_.prime()) return fail(ErrorCode::device, "oneDNN has no memory");
  return {};
}

Result<void> OneDnnStep::make_reorder() {
  dnn::PrimitiveDesc descriptor = nullptr;
  const OneDnnMatmul& matmul = *matmuls_.front();
  bool good = library_.reorder_primitive_desc_create(&descriptor, matmul.plain_weights(),
                                                     library_.engine, matmul.weights(),
                                                     library_.engine, nullptr) == dnn::kSuccess;
  good = good && library_.primitive_create(&reorder_, descriptor) == dnn::kSuccess;
  if (descriptor != nullptr) library_.primitive_desc_destroy(descriptor);
  if (good) return {};
  return fail(ErrorCode::build_failed, "oneDNN cannot pack these weights");
}

bool OneDnnStep::execute(RunState& state, std::size_t index, const StepPointers& pointers,
                         std::int64_t entry) const {
  const Problem& p = problem_;
  Objects& objects = state.objects[index];
  const void* weights =
      variant_.packed ? at_element(pointers.packed_b, 8, own_b() ? entry * weights_bytes() : 0)
                      : at_element(pointers.b, bits(p.b), entry * p.stride_b);
  const bool has_bias = objects.bias.memory != nullptr;
  const bool good =
      objects.src.point_to(library_, at_element(pointers.a, bits(p.a), entry * p.stride_a)) &&
      objects.dst.point_to(library_, at_element(pointers.d, bits(p.d), entry * p.stride_d)) &&
      objects.weights.point_to(library_, weights) &&
      (!has_bias || objects.bias.point_to(library_, pointers.extra[bias_operand_]));
  const std::array<dnn::ExecArg, 5> args = {{{dnn::kArgSrc, objects.src.memory},
                                             {dnn::kArgWeights, objects.weights.memory},
                                             {dnn::kArgDst, objects.dst.memory},
                                             {dnn::kArgScratchpad, objects.scratch.memory},
                                             {dnn::kArgBias, objects.bias.memory}}};
  const int count = has_bias ? 5 : 4;
  return good && library_.primitive_execute(matmuls_[index]->primitive(), state.stream, count,
                                            args.data()) == dnn::kSuccess;
}

Result<void> OneDnnStep::run(const StepPointers& pointers) const {
  const OmpThreads omp(library_, threads_);
  const auto state = states_.take();
  if (!state) return fail(ErrorCode::device, "oneDNN has no memory");
  const auto index = static_cast<std::size_t>(pointers.m - problem_.m_range.low);
  for (std::int64_t entry = 0; entry < entries(); ++entry) {
    if (!execute(*state, index, pointers, entry)) {
      return fail(ErrorCode::device, "oneDNN failed to execute");
    }
  }
  return {};
}

Result<void> OneDnnStep::pack(const void* b, void* packed, Stream) const {
  if (reorder_ == nullptr) return fail(ErrorCode::unsupported, "this step reads B as it is");
  const OmpThreads omp(library_, threads_);
  const auto state = states_.take();
  if (!state) return fail(ErrorCode::device, "oneDNN has no memory");
  const std::int64_t count = own_b() ? problem_.batch : 1;
  for (std::int64_t entry = 0; entry < count; ++entry) {
    dnn::Memory from = nullptr;
    dnn::Memory to = nullptr;
    const void* source = at_element(b, bits(problem_.b), entry * problem_.stride_b);
    bool good = library_.memory_create(&from, matmuls_.front()->plain_weights(), library_.engine,
                                       const_cast<void*>(source)) == dnn::kSuccess;
    good = good &&
           library_.memory_create(&to, matmuls_.front()->weights(), library_.engine,
                                  at_element(packed, 8, entry * weights_bytes())) == dnn::kSuccess;
    const std::array<dnn::ExecArg, 2> args = {{{dnn::kArgFrom, from}, {dnn::kArgTo, to}}};
    good = good &&
           library_.primitive_execute(reorder_, state->stream, 2, args.data()) == dnn::kSuccess;
    if (from != nullptr) library_.memory_destroy(from);
    if (to != nullptr) library_.memory_destroy(to);
    if (!good) return fail(ErrorCode::device, "oneDNN failed to pack the weights");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<LoadedStep>> load_onednn_step(const Problem& problem, const BuiltStep& step,
                                                     const DeviceSpec& device) {
  if (device.is_cuda()) return fail(ErrorCode::device, "oneDNN is used on the CPU");
  const Result<OneDnn>& library = onednn();
  if (!library) return tl::unexpected(library.error());
  auto same = check_library_attributes(step.artifact.bytes, "oneDNN", library->version);
  if (!same) return tl::unexpected(same.error());
  const auto variant = OneDnnVariant::parse(step.step.config);
  if (!variant) return tl::unexpected(variant.error());
  const int threads = std::max(1, step.launch.host.threads);
  if (auto settable = onednn_threads_settable(*library, threads); !settable) {
    return tl::unexpected(settable.error());
  }
  auto loaded = std::make_unique<OneDnnStep>(*library, problem, *variant, threads);
  auto prepared = loaded->prepare(step.launch.packed_b_bytes);
  if (!prepared) return tl::unexpected(prepared.error());
  return loaded;
}

}  // namespace culet
