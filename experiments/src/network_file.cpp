#include "network_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/network_builder.h"
#include "onnx_file.h"
#include "toml_reader.h"
#include "usage_error.h"

namespace batchless {
namespace {

using hwmodel::FeatureShape;
using hwmodel::Layer;
using hwmodel::LayerField;
using hwmodel::LayerTraits;
using hwmodel::Network;
using hwmodel::Stage;

constexpr std::size_t kMaxNetworkBytes = 1 << 22;
constexpr std::string_view kInput = "input";

template <class T>
constexpr bool kIsOutputMember = std::is_same_v<T, int FeatureShape::*>;

// The name of a layer's parameters unless another one is given; empty where it has none.
std::string DefaultName(const Stage& stage, std::size_t i) {
  const auto has_parameters = [](const Layer& layer) {
    return hwmodel::TraitsOf(layer.kind).parameters != nullptr;
  };
  const auto layer = stage.layers.begin() + static_cast<std::ptrdiff_t>(i);
  if (!has_parameters(*layer)) return "";
  if (std::none_of(layer + 1, stage.layers.end(), has_parameters)) return stage.name;
  return fmt::format("{}.{}", stage.name, hwmodel::TraitsOf(layer->kind).name);
}

class NetworkReader {
 public:
  NetworkReader(std::string where, const std::string& text) : file_(std::move(where), text) {}

  Network Read() {
    const toml::table& document = file_.document();
    file_.CheckKeys(document, "", "an unknown key", {"name", "input", "classes", "stage"});
    const std::string name = NameIn(document, "name");
    const toml::node& classes = file_.Node(document, "classes", "how many classes there are");
    const toml::node& stages = file_.Node(document, "stage", "stages, each in a section [[stage]]");
    const FeatureShape input = InputShape(file_.Node(document, "input", kShape));
    if (!classes.is_integer()) file_.RefuseValue(classes, "classes", "an integer");
    const std::int64_t count = classes.as_integer()->get();
    builder_.emplace(Checked(document, [&] {
      return hwmodel::NetworkBuilder(name, input,
                                     static_cast<int>(std::clamp<std::int64_t>(count, 0, 1 << 30)));
    }));
    if (!stages.is_array_of_tables()) {
      file_.RefuseValue(stages, "stage", "stages, each in a section [[stage]]");
    }
    for (const toml::node& stage : *stages.as_array()) ReadStage(*stage.as_table());
    return Checked(document, [&] { return builder_->Finish(); });
  }

 private:
  static constexpr std::string_view kShape = "three integers, [channels, height, width]";

  // Calls what may refuse something that the node describes.
  template <class Work>
  std::invoke_result_t<Work> Checked(const toml::node& node, Work work) const {
    try {
      return work();
    } catch (const analysis::InvalidArgument& error) {
      file_.Refuse(node, error.name(), error.value(), error.accepted());
    }
  }

  std::string NameOf(const toml::node& node, std::string_view key) const {
    std::string name = node.value<std::string>().value_or("");
    const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return c < 0x80 && (std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-');
    });
    if (!plain) file_.RefuseValue(node, key, "a name of letters, digits, '.', '_' and '-'");
    return name;
  }

  std::string NameIn(const toml::table& table, std::string_view key) const {
    return NameOf(file_.Node(table, key, "a name"), key);
  }

  FeatureShape InputShape(const toml::node& node) const {
    const toml::array* edges = node.as_array();
    std::array<int, 3> shape{};
    bool is_shape = edges != nullptr && edges->size() == shape.size();
    for (std::size_t i = 0; is_shape && i < shape.size(); ++i) {
      const std::int64_t edge = (*edges)[i].value<std::int64_t>().value_or(-1);
      is_shape = edge > 0 && edge < (1 << 20);
      shape.at(i) = static_cast<int>(edge);
    }
    if (!is_shape) file_.RefuseValue(node, kInput, kShape);
    return {shape[0], shape[1], shape[2]};
  }

  void ReadStage(const toml::table& table) {
    Stage stage;
    stage.name = NameIn(table, "name");
    if (!stages_.insert(stage.name).second) {
      file_.Refuse(table, "name", stage.name, "a name that no other stage has");
    }
    file_.CheckKeys(table, stage.name + ".", "an unknown key",
                    {"name", "inputs", "outputs", "layers"});
    const std::string layers_name = stage.name + ".layers";
    const toml::node& layers = file_.Node(table, "layers", "a list of layers");
    if (!layers.is_array()) file_.RefuseValue(layers, layers_name, "a list of layers");
    for (const toml::node& layer : *layers.as_array()) {
      stage.layers.push_back(ReadLayer(layer, layers_name));
    }
    for (std::size_t i = 0; i < stage.layers.size(); ++i) {
      std::string& name = stage.layers[i].name;
      if (name.empty()) name = DefaultName(stage, i);
      if (!name.empty() && !parameters_.insert(name).second) {
        file_.Refuse(layers, layers_name, name, "a name that no other layer's parameters have");
      }
    }
    stage.inputs = {last_};
    if (const toml::node* inputs = table.get("inputs")) {
      stage.inputs.clear();
      for (const std::string& name : NamesIn(*inputs, stage.name + ".inputs")) {
        stage.inputs.push_back(ValueNamed(*inputs, stage.name + ".inputs", name));
      }
    }
    std::vector<std::string> outputs{stage.name};
    if (const toml::node* names = table.get("outputs")) {
      const std::string key = stage.name + ".outputs";
      outputs = NamesIn(*names, key);
      if (outputs.empty() || outputs.size() > 2) {
        file_.Refuse(
            *names, key, fmt::format("{}", outputs.size()),
            "the result and, with several layers, the input of the last one, or the rows of an "
            "embedding");
      }
    }
    int second = -1;
    last_ = Checked(table, [&] {
      return builder_->Add(std::move(stage), outputs.size() == 2 ? &second : nullptr);
    });
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (last_ < 0) break;
      if (!values_.emplace(outputs[i], i == 0 ? last_ : second).second) {
        file_.Refuse(table, "name", outputs[i], "a name that no other value has");
      }
    }
  }

  std::vector<std::string> NamesIn(const toml::node& node, const std::string& key) const {
    std::vector<std::string> names;
    if (!node.is_array()) file_.RefuseValue(node, key, "a list of names");
    for (const toml::node& name : *node.as_array()) names.push_back(NameOf(name, key));
    return names;
  }

  int ValueNamed(const toml::node& node, const std::string& key, const std::string& name) const {
    const auto value = values_.find(name);
    if (value != values_.end()) return value->second;
    Choices known;
    for (const auto& [known_name, number] : values_) known.push_back(known_name);
    file_.Refuse(
        node, key, name,
        fmt::format("a value that an earlier stage makes{}", analysis::DidYouMean(name, known)));
  }

  Layer ReadLayer(const toml::node& node, const std::string& owner) const {
    const toml::table* table = node.as_table();
    const toml::node* kind = table == nullptr ? &node : table->get("kind");
    const Choices kinds = analysis::NamesOf(hwmodel::LayerKinds());
    if (kind == nullptr) {
      file_.Refuse(node, owner, "a layer without a kind", analysis::ListOf(kinds));
    }
    const std::string kind_name = kind->value<std::string>().value_or(ShownText(*kind));
    const LayerTraits& traits = Checked(*kind, [&]() -> const LayerTraits& {
      return analysis::FindRow(hwmodel::LayerKinds(), owner, kind_name);
    });
    Choices keys{"kind"};
    if (traits.parameters != nullptr) keys.push_back("name");
    for (const LayerField& field : traits.fields) keys.push_back(field.name);
    const std::string prefix = fmt::format("{}.{}.", owner, kind_name);
    if (table != nullptr) file_.CheckKeys(*table, prefix, "an unknown key", keys);
    Layer layer{.kind = traits.kind};
    for (const LayerField& field : traits.fields) {
      const toml::node* value = table == nullptr ? nullptr : table->get(field.name);
      if (value != nullptr) {
        ReadField(*value, prefix, field, layer);
      } else if (field.required) {
        file_.Refuse(node, fmt::format("{}{}", prefix, field.name), "nothing", Accepted(field));
      }
    }
    if (table != nullptr && table->contains("name")) layer.name = NameIn(*table, "name");
    return layer;
  }

  static std::string Accepted(const LayerField& field) {
    if (std::holds_alternative<bool Layer::*>(field.member)) return "true or false";
    const bool real = std::holds_alternative<double Layer::*>(field.member);
    return fmt::format("{} from {} to {}", real ? "a number" : "an integer",
                       analysis::ToText(field.low), analysis::ToText(field.high));
  }

  void ReadField(const toml::node& node, const std::string& prefix, const LayerField& field,
                 Layer& layer) const {
    const bool is_read = std::visit(
        [&](auto member) {
          using Member = decltype(member);
          if constexpr (std::is_same_v<Member, bool Layer::*>) {
            if (!node.is_boolean()) return false;
            layer.*member = node.as_boolean()->get();
          } else {
            constexpr bool kIsReal = std::is_same_v<Member, double Layer::*>;
            if (!(kIsReal ? node.is_number() : node.is_integer())) return false;
            const double value = *NumberIn(node);
            if (!(value >= field.low && value <= field.high)) return false;
            if constexpr (kIsReal) layer.*member = value;
            if constexpr (std::is_same_v<Member, int Layer::*>) {
              layer.*member = static_cast<int>(value);
            }
            if constexpr (kIsOutputMember<Member>) layer.output.*member = static_cast<int>(value);
          }
          return true;
        },
        field.member);
    if (is_read) return;
    file_.RefuseValue(node, fmt::format("{}{}", prefix, field.name), Accepted(field));
  }

  TomlReader file_;
  std::optional<hwmodel::NetworkBuilder> builder_;
  std::map<std::string, int, std::less<>> values_{{std::string(kInput), 0}};
  std::set<std::string> parameters_;
  std::set<std::string> stages_;
  int last_ = 0;  // the value of the stage before
};

// What differs from a layer's defaults, as it is written in a file; empty where nothing does.
std::string FieldText(const LayerField& field, const Layer& layer) {
  static const Layer kDefault;
  return std::visit(
      [&](auto member) -> std::string {
        using Member = decltype(member);
        if constexpr (kIsOutputMember<Member>) {
          return fmt::format("{} = {}", field.name, layer.output.*member);
        } else {
          if (!field.required && layer.*member == kDefault.*member) return "";
          if constexpr (std::is_same_v<Member, double Layer::*>) {
            return fmt::format("{} = {}", field.name, analysis::ToText(layer.*member));
          } else {
            return fmt::format("{} = {}", field.name, layer.*member);
          }
        }
      },
      field.member);
}

std::string LayerText(const Stage& stage, std::size_t i) {
  const Layer& layer = stage.layers[i];
  const LayerTraits& traits = hwmodel::TraitsOf(layer.kind);
  std::string text;
  if (layer.name != DefaultName(stage, i)) text = fmt::format(", name = \"{}\"", layer.name);
  for (const LayerField& field : traits.fields) {
    if (const std::string value = FieldText(field, layer); !value.empty()) text += ", " + value;
  }
  return text.empty() ? fmt::format("\"{}\"", traits.name)
                      : fmt::format("{{ kind = \"{}\"{} }}", traits.name, text);
}

std::string Quoted(const std::vector<std::string>& names) {
  return fmt::format("[\"{}\"]", fmt::join(names, "\", \""));
}

}  // namespace

bool IsNetworkFile(std::string_view name) { return name.ends_with(".toml") || IsOnnxFile(name); }

Network ReadNetworkFile(const std::string& argument, const std::string& path) {
  constexpr std::string_view kAccepted = "a network file, PATH.toml or PATH.onnx";
  RefuseIf(!IsNetworkFile(path), argument, path,
           fmt::format("{} (by the end of its name)", kAccepted));
  if (IsOnnxFile(path)) return ReadOnnxNetwork(argument, path);
  const std::string text = ReadInput(argument, path, kAccepted, kMaxNetworkBytes);
  return NetworkReader(fmt::format("{} {}", argument, path), text).Read();
}

std::string NetworkText(const Network& network) {
  std::string text = fmt::format("name = \"{}\"\ninput = [{}, {}, {}]\nclasses = {}\n",
                                 network.name, network.input.channels, network.input.height,
                                 network.input.width, network.classes);
  std::vector<std::string> names{std::string(kInput)};
  int last = 0;
  for (const Stage& stage : network.stages) {
    text += fmt::format("\n[[stage]]\nname = \"{}\"\n", stage.name);
    if (stage.inputs != std::vector<int>{last}) {
      std::vector<std::string> inputs;
      for (const int input : stage.inputs) inputs.push_back(names.at(input));
      text += fmt::format("inputs = {}\n", Quoted(inputs));
    }
    if (!stage.outputs.empty()) last = stage.outputs.front();
    if (!stage.outputs.empty()) names.push_back(stage.name);
    if (stage.outputs.size() > 1) {
      names.push_back(stage.name + (hwmodel::HandsOnRows(stage) ? ".rows" : ".rectified"));
      text += fmt::format("outputs = {}\n", Quoted({names.end() - 2, names.end()}));
    }
    std::vector<std::string> layers;
    for (std::size_t i = 0; i < stage.layers.size(); ++i) layers.push_back(LayerText(stage, i));
    text += fmt::format("layers = [{}]\n", fmt::join(layers, ", "));
  }
  return text;
}

}  // namespace batchless
