#include "backends/onednn_convolution.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <utility>

#include "backends/blocked_weights.h"

// oneDNN may have been built on OpenMP or not; where it was, these come with it.
extern "C" {
__attribute__((weak)) int omp_get_max_threads();
__attribute__((weak)) void omp_set_num_threads(int);
}

namespace batchless::training {
namespace {

using dnnl::memory;

// While one lives, oneDNN's primitives that this thread makes or runs take one thread.
class OneThread {
 public:
  OneThread() {
    if (omp_set_num_threads == nullptr || omp_get_max_threads == nullptr) return;
    threads_ = omp_get_max_threads();
    if (threads_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (threads_ > 1) omp_set_num_threads(threads_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int threads_ = 1;
};

// Everything that oneDNN 3 changed: descriptors lost their own objects.
#if DNNL_VERSION_MAJOR >= 3
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc Describe(const dnnl::engine& engine,
                                            const dnnl::primitive_attr& attributes,
                                            const Arguments&... arguments) {
  return {engine, arguments..., attributes};
}

template <class Primitive, class... Arguments>
typename Primitive::primitive_desc DescribeBackward(
    const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
    const dnnl::convolution_forward::primitive_desc& hint, const Arguments&... arguments) {
  return {engine, arguments..., hint, attributes};
}
#else
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc Describe(const dnnl::engine& engine,
                                            const dnnl::primitive_attr& attributes,
                                            const Arguments&... arguments) {
  return {typename Primitive::desc(arguments...), attributes, engine};
}

template <class Primitive, class... Arguments>
typename Primitive::primitive_desc DescribeBackward(
    const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
    const dnnl::convolution_forward::primitive_desc& hint, const Arguments&... arguments) {
  return {typename Primitive::desc(arguments...), attributes, engine, hint};
}
#endif

// A primitive and its tensors, the scratchpad first.
class Call {
 public:
  static constexpr std::size_t kMostTensors = 5;

  Call() = default;
  Call(const dnnl::engine& engine, dnnl::primitive primitive, const memory::desc& scratchpad,
       std::initializer_list<std::pair<int, memory::desc>> tensors)
      : primitive_(std::move(primitive)), scratchpad_bytes_(scratchpad.get_size()) {
    Add(engine, DNNL_ARG_SCRATCHPAD, scratchpad);
    for (const auto& [argument, description] : tensors) Add(engine, argument, description);
  }

  void Add(const dnnl::engine& engine, int argument, const memory::desc& description) {
    tensors_[count_] = memory(description, engine, nullptr);
    arguments_[count_] = {argument, tensors_[count_].get()};
    ++count_;
  }

  std::size_t scratchpad_bytes() const { return scratchpad_bytes_; }

  // `data` in the order of the tensors; what is behind the last of them is not read. oneDNN writes only
  // to what its arguments call destinations.
  void Execute(const dnnl::stream& stream, const std::array<const float*, kMostTensors>& data) {
    for (int i = 0; i < count_; ++i) {
      // Most stay where they are, and telling oneDNN takes its time.
      if (data_[i] != data[i]) tensors_[i].set_data_handle(const_cast<float*>(data[i]));
    }
    data_ = data;
    const OneThread one_thread;
    // The C function takes its arguments as they are; the C++ one allocates a map at each call.
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive_.get(), stream.get(), count_, arguments_.data()),
        "a convolution failed");
  }

 private:
  dnnl::primitive primitive_;
  std::size_t scratchpad_bytes_ = 0;
  int count_ = 0;
  std::array<memory, kMostTensors> tensors_;
  std::array<const float*, kMostTensors> data_{};
  std::array<dnnl_exec_arg_t, kMostTensors> arguments_{};
};

class OneDnnConvolution final : public Convolution<float> {
 public:
  OneDnnConvolution(const ConvolutionShape& shape, TransposeBlocks transpose)
      : Convolution(BlockedWeights(shape)),
        transpose_(transpose),
        engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_) {
    const OneThread one_thread;
    const hwmodel::Layer& layer = shape.layer;
    const bool first = shape.input_block == 1;
    using Tag = memory::format_tag;
    const bool wide = shape.output_block == 16;
    const Tag image = wide ? Tag::nChw16c : Tag::nChw8c;
    const Tag weight_order = wide ? Tag::OIhw16i16o : Tag::OIhw8i8o;
    const Tag first_order = wide ? Tag::Ohwi16o : Tag::Ohwi8o;
    const std::int64_t in = RoundUp(layer.input.channels, shape.input_block);
    const std::int64_t out = RoundUp(layer.output.channels, shape.output_block);

    const auto type = memory::data_type::f32;
    const memory::dims weight_dims{out, in, layer.kernel, layer.kernel};
    const memory::desc x({shape.microbatch, in, layer.input.height, layer.input.width}, type,
                         first ? Tag::nchw : image);
    const memory::desc w(weight_dims, type, first ? first_order : weight_order);
    const memory::desc y({shape.microbatch, out, layer.output.height, layer.output.width}, type,
                         image);
    memory::desc bias;  // empty: none
    if (layer.bias) bias = memory::desc({out}, type, Tag::x);
    const memory::dims strides{layer.stride, layer.stride};
    const memory::dims padding{layer.padding, layer.padding};

    constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto forward =
        Describe<dnnl::convolution_forward>(engine_, attributes, dnnl::prop_kind::forward_training,
                                            kAlgorithm, x, w, bias, y, strides, padding, padding);
    forward_ = Call(engine_, dnnl::convolution_forward(forward), forward.scratchpad_desc(),
                    {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
    if (layer.bias) forward_.Add(engine_, DNNL_ARG_BIAS, bias);
    const auto weights = DescribeBackward<dnnl::convolution_backward_weights>(
        engine_, attributes, forward, kAlgorithm, x, w, y, strides, padding, padding);
    weights_ = Call(engine_, dnnl::convolution_backward_weights(weights), weights.scratchpad_desc(),
                    {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_DIFF_WEIGHTS, w}});
    if (first) return;
    const memory::desc transposed(weight_dims, type, wide ? Tag::OIhw16o16i : Tag::OIhw8o8i);
    const auto input = DescribeBackward<dnnl::convolution_backward_data>(
        engine_, attributes, forward, kAlgorithm, x, transposed, y, strides, padding, padding);
    input_ = Call(engine_, dnnl::convolution_backward_data(input), input.scratchpad_desc(),
                  {{DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_WEIGHTS, transposed}, {DNNL_ARG_DIFF_SRC, x}});
  }

  std::int64_t workspace_size() const override {
    const std::size_t bytes = std::max(
        {forward_.scratchpad_bytes(), weights_.scratchpad_bytes(), input_.scratchpad_bytes()});
    // The transposed weights come first.
    return TransposedSize() +
           static_cast<std::int64_t>((bytes + sizeof(float) - 1) / sizeof(float));
  }

  void Forward(const float* x, const float* weights, const float* bias, float* y, float* workspace,
               Prefetcher* /*ahead*/) override {
    forward_.Execute(stream_, {workspace, x, weights, y, bias});
  }

  void BackwardInput(const float* dy, const float* weights, float* dx, float* workspace,
                     Prefetcher* /*ahead*/) override {
    transpose_(weight_tensor().stored_size, weights, workspace);
    input_.Execute(stream_, {workspace + TransposedSize(), dy, workspace, dx});
  }

  void BackwardWeights(const float* x, const float* dy, float* dw, float* workspace,
                       Prefetcher* /*ahead*/, GradientConsumer<float>* consumer) override {
    weights_.Execute(stream_, {workspace, x, dy, dw});
    if (consumer != nullptr) consumer->Take(0, weight_tensor().stored_size, dw);
  }

 private:
  std::int64_t TransposedSize() const {
    constexpr std::int64_t kCacheLine = 16;
    return RoundUp(weight_tensor().stored_size, kCacheLine);
  }

  TransposeBlocks transpose_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  Call forward_;
  Call input_;
  Call weights_;
};

}  // namespace

std::unique_ptr<Convolution<float>> MakeOneDnnConvolution(const ConvolutionShape& shape,
                                                          TransposeBlocks transpose) {
  return std::make_unique<OneDnnConvolution>(shape, transpose);
}

std::string OneDnnVersion() {
  const dnnl_version_t* version = dnnl_version();
  return std::to_string(version->major) + '.' + std::to_string(version->minor) + '.' +
         std::to_string(version->patch);
}

}  // namespace batchless::training
