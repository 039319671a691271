#include "backends/onednn_convolution.h"

#include <algorithm>
#include <array>
#include <oneapi/dnnl/dnnl.hpp>

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
  OneThread(OneThread&&) = delete;
  OneThread& operator=(OneThread&&) = delete;

 private:
  int threads_ = 1;
};

// Everything that oneDNN 3 changed: descriptors lost their own objects.
struct Descriptions {
  memory::desc x;
  memory::desc forward_weights;
  memory::desc backward_weights;
  memory::desc bias;
  memory::desc y;
  memory::dims strides;
  memory::dims padding;
};

#if DNNL_VERSION_MAJOR >= 3
dnnl::convolution_forward::primitive_desc ForwardDescription(const dnnl::engine& engine,
                                                             const dnnl::primitive_attr& attributes,
                                                             const Descriptions& d) {
  const auto kind = dnnl::prop_kind::forward_training;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  if (d.bias.get_size() == 0) {
    return {engine, kind,      algorithm, d.x,       d.forward_weights,
            d.y,    d.strides, d.padding, d.padding, attributes};
  }
  return {engine, kind,      algorithm, d.x,       d.forward_weights, d.bias,
          d.y,    d.strides, d.padding, d.padding, attributes};
}

dnnl::convolution_backward_data::primitive_desc InputDescription(
    const dnnl::engine& engine, const dnnl::primitive_attr& attributes, const Descriptions& d,
    const dnnl::convolution_forward::primitive_desc& hint) {
  return {engine,    dnnl::algorithm::convolution_direct,
          d.x,       d.backward_weights,
          d.y,       d.strides,
          d.padding, d.padding,
          hint,      attributes};
}

dnnl::convolution_backward_weights::primitive_desc WeightsDescription(
    const dnnl::engine& engine, const dnnl::primitive_attr& attributes, const Descriptions& d,
    const dnnl::convolution_forward::primitive_desc& hint) {
  return {engine,    dnnl::algorithm::convolution_direct,
          d.x,       d.forward_weights,
          d.y,       d.strides,
          d.padding, d.padding,
          hint,      attributes};
}
#else
dnnl::convolution_forward::primitive_desc ForwardDescription(const dnnl::engine& engine,
                                                             const dnnl::primitive_attr& attributes,
                                                             const Descriptions& d) {
  using Description = dnnl::convolution_forward::desc;
  const auto kind = dnnl::prop_kind::forward_training;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const Description description = d.bias.get_size() == 0
                                      ? Description(kind, algorithm, d.x, d.forward_weights, d.y,
                                                    d.strides, d.padding, d.padding)
                                      : Description(kind, algorithm, d.x, d.forward_weights, d.bias,
                                                    d.y, d.strides, d.padding, d.padding);
  return {description, attributes, engine};
}

dnnl::convolution_backward_data::primitive_desc InputDescription(
    const dnnl::engine& engine, const dnnl::primitive_attr& attributes, const Descriptions& d,
    const dnnl::convolution_forward::primitive_desc& hint) {
  const dnnl::convolution_backward_data::desc description(dnnl::algorithm::convolution_direct, d.x,
                                                          d.backward_weights, d.y, d.strides,
                                                          d.padding, d.padding);
  return {description, attributes, engine, hint};
}

dnnl::convolution_backward_weights::primitive_desc WeightsDescription(
    const dnnl::engine& engine, const dnnl::primitive_attr& attributes, const Descriptions& d,
    const dnnl::convolution_forward::primitive_desc& hint) {
  const dnnl::convolution_backward_weights::desc description(dnnl::algorithm::convolution_direct,
                                                             d.x, d.forward_weights, d.y, d.strides,
                                                             d.padding, d.padding);
  return {description, attributes, engine, hint};
}
#endif

struct Tags {
  memory::format_tag image;
  memory::format_tag forward_weights;
  memory::format_tag backward_weights;
  memory::format_tag first_weights;
};

Tags TagsOf(int block) {
  using Tag = memory::format_tag;
  if (block == 16) return {Tag::nChw16c, Tag::OIhw16i16o, Tag::OIhw16o16i, Tag::Ohwi16o};
  return {Tag::nChw8c, Tag::OIhw8i8o, Tag::OIhw8o8i, Tag::Ohwi8o};
}

class OneDnnConvolution final : public Convolution<float> {
 public:
  OneDnnConvolution(const ConvolutionShape& shape, TransposeBlocks transpose)
      : transpose_(transpose),
        weight_(BlockedWeights(shape)),
        engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_) {
    const OneThread one_thread;
    const hwmodel::Layer& layer = shape.layer;
    const bool first = shape.input_block == 1;
    const Tags tags = TagsOf(shape.output_block);
    const std::int64_t in = RoundUp(layer.input.channels, shape.input_block);
    const std::int64_t out = RoundUp(layer.output.channels, shape.output_block);

    const auto type = memory::data_type::f32;
    const memory::dims weight_dims{out, in, layer.kernel, layer.kernel};
    Descriptions d;
    d.x = memory::desc({shape.microbatch, in, layer.input.height, layer.input.width}, type,
                       first ? memory::format_tag::nchw : tags.image);
    d.forward_weights =
        memory::desc(weight_dims, type, first ? tags.first_weights : tags.forward_weights);
    d.y = memory::desc({shape.microbatch, out, layer.output.height, layer.output.width}, type,
                       tags.image);
    if (layer.bias) d.bias = memory::desc({out}, type, memory::format_tag::x);
    d.strides = {layer.stride, layer.stride};
    d.padding = {layer.padding, layer.padding};

    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto forward = ForwardDescription(engine_, attributes, d);
    const auto weights = WeightsDescription(engine_, attributes, d, forward);
    forward_ = Primitive(dnnl::convolution_forward(forward), forward.scratchpad_desc());
    weights_ = Primitive(dnnl::convolution_backward_weights(weights), weights.scratchpad_desc());
    if (!first) {
      d.backward_weights = memory::desc(weight_dims, type, tags.backward_weights);
      const auto input = InputDescription(engine_, attributes, d, forward);
      input_ = Primitive(dnnl::convolution_backward_data(input), input.scratchpad_desc());
      backward_weights_memory_ = memory(d.backward_weights, engine_, nullptr);
    }
    x_ = memory(d.x, engine_, nullptr);
    y_ = memory(d.y, engine_, nullptr);
    forward_weights_memory_ = memory(d.forward_weights, engine_, nullptr);
    if (layer.bias) bias_ = memory(d.bias, engine_, nullptr);
    for (Primitive* primitive : {&forward_, &weights_, &input_}) {
      if (!primitive->primitive) continue;
      primitive->scratchpad = memory(primitive->scratchpad_description, engine_, nullptr);
    }
  }

  ParameterTensor weight_tensor() const override { return weight_; }

  std::int64_t workspace_size() const override {
    std::size_t bytes = 0;
    for (const Primitive* primitive : {&forward_, &weights_, &input_}) {
      bytes = std::max(bytes, primitive->scratchpad_description.get_size());
    }
    // The transposed weights come first.
    return TransposedSize() +
           static_cast<std::int64_t>((bytes + sizeof(float) - 1) / sizeof(float));
  }

  void Forward(const float* x, const float* weights, const float* bias, float* y, float* workspace,
               Prefetcher* /*ahead*/) override {
    Set(x_, x);
    Set(forward_weights_memory_, weights);
    Set(y_, y);
    Set(forward_.scratchpad, workspace);
    std::array<dnnl_exec_arg_t, 5> arguments{{{DNNL_ARG_SRC, x_.get()},
                                              {DNNL_ARG_WEIGHTS, forward_weights_memory_.get()},
                                              {DNNL_ARG_DST, y_.get()},
                                              {DNNL_ARG_SCRATCHPAD, forward_.scratchpad.get()},
                                              {DNNL_ARG_BIAS, nullptr}}};
    int count = 4;
    if (bias_) {
      Set(bias_, bias);
      arguments[count++].memory = bias_.get();
    }
    Execute(forward_, count, arguments.data());
  }

  void BackwardInput(const float* dy, const float* weights, float* dx, float* workspace,
                     Prefetcher* /*ahead*/) override {
    Set(y_, dy);
    transpose_(weight_.stored_size, weights, workspace);
    Set(backward_weights_memory_, workspace);
    Set(x_, dx);
    Set(input_.scratchpad, workspace + TransposedSize());
    const std::array<dnnl_exec_arg_t, 4> arguments{
        {{DNNL_ARG_DIFF_DST, y_.get()},
         {DNNL_ARG_WEIGHTS, backward_weights_memory_.get()},
         {DNNL_ARG_DIFF_SRC, x_.get()},
         {DNNL_ARG_SCRATCHPAD, input_.scratchpad.get()}}};
    Execute(input_, 4, arguments.data());
  }

  void BackwardWeights(const float* x, const float* dy, float* dw, float* workspace,
                       Prefetcher* /*ahead*/, GradientConsumer<float>* consumer) override {
    Set(x_, x);
    Set(y_, dy);
    Set(forward_weights_memory_, dw);
    Set(weights_.scratchpad, workspace);
    const std::array<dnnl_exec_arg_t, 4> arguments{
        {{DNNL_ARG_SRC, x_.get()},
         {DNNL_ARG_DIFF_DST, y_.get()},
         {DNNL_ARG_DIFF_WEIGHTS, forward_weights_memory_.get()},
         {DNNL_ARG_SCRATCHPAD, weights_.scratchpad.get()}}};
    Execute(weights_, 4, arguments.data());
    if (consumer != nullptr) consumer->Take(0, weight_tensor().stored_size, dw);
  }

 private:
  struct Primitive {
    Primitive() = default;
    Primitive(dnnl::primitive p, const memory::desc& description)
        : primitive(std::move(p)), scratchpad_description(description) {}

    dnnl::primitive primitive;
    memory::desc scratchpad_description;
    memory scratchpad;
  };

  std::int64_t TransposedSize() const {
    constexpr std::int64_t kCacheLine = 16;
    return RoundUp(weight_.stored_size, kCacheLine);
  }

  // oneDNN writes only to what its arguments call destinations.
  static void Set(memory& tensor, const float* data) {
    tensor.set_data_handle(const_cast<float*>(data));
  }

  // The C function takes its arguments from the stack; the C++ one allocates a map at each call.
  void Execute(const Primitive& primitive, int count, const dnnl_exec_arg_t* arguments) {
    const OneThread one_thread;
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive.primitive.get(), stream_.get(), count, arguments),
        "a convolution failed");
  }

  TransposeBlocks transpose_;
  ParameterTensor weight_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  Primitive forward_;
  Primitive input_;
  Primitive weights_;
  memory x_;
  memory y_;
  memory forward_weights_memory_;
  memory backward_weights_memory_;
  memory bias_;
};

}  // namespace

std::unique_ptr<Convolution<float>> MakeOneDnnConvolution(const ConvolutionShape& shape,
                                                          TransposeBlocks transpose) {
  return std::make_unique<OneDnnConvolution>(shape, transpose);
}

}  // namespace batchless::training
