// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "core/archive.h"
#include "core/pickle.h"
#include "core/torch.h"
#include "exchange/import.h"
#include "util/text.h"

namespace gantrain {

namespace {

using Kind = PickleKind;

constexpr const char* kPersistent = "torch_utils.persistence._reconstruct_persistent_obj";
constexpr const char* kSupported =
    "import reads training.networks.Generator of StyleGAN2-ADA (PyTorch), and "
    "training.networks_stylegan2.Generator and training.networks_stylegan3.Generator of "
    "StyleGAN3's repository, R3GAN's generators, and pg_modules.networks_fastgan.Generator of "
    "Projected GAN";

// A network of the snapshot: a class by name with the attributes of its instance.
struct Module {
  std::string name;        // "G_ema", "G_ema.synthesis.b4"
  std::string class_name;  // as the file has it: "Generator", "training.networks.Generator"
  const PickleValue* state = nullptr;
  const PickleValue* source_text = nullptr;
  bool is_persistent = true;  // keeps its constructor's arguments and its Python source
};

// Names of the constructor's positional arguments, in their order.
const char* const kPositions[] = {"z_dim",
                                  "c_dim",
                                  "w_dim",
                                  "img_resolution",
                                  "img_channels",
                                  "mapping_kwargs",
                                  "synthesis_kwargs"};

class Reader {
 public:
  Reader(std::string_view content, std::string source, const RecipeTable& recipes)
      : source_(std::move(source)),
        tensors_(source_, static_cast<int64_t>(content.size()) * 2 + (1 << 20)) {
    PickleRules rules;
    rules.source = source_;
    rules.globals = torch_globals();
    rules.globals.insert({kPersistent,
                          "dnnlib.util.EasyDict",
                          "torch.nn.modules.*",
                          "torch.nn.utils.spectral_norm.*"});
    for (const RecipeRow& row : recipes) {
      if (row.pickled == nullptr) continue;
      forms_.push_back(row.pickled);
      for (const std::string& module : row.pickled->modules) rules.globals.insert(module + "*");
    }
    rules.hint =
        "; nothing but the networks' own classes and tensors is. Snapshots of the TensorFlow "
        "versions must first go through the reference's legacy.py";
    pickle_ = parse_pickle(content, rules);
  }

  ModelContent read() {
    const PickleValue& root = *pickle_.root;
    if (root.kind != Kind::kDict && root.kind != Kind::kObject)
      refuse_file(source_, "holds {}, a dict with G_ema is needed", root.describe());
    const PickleValue* ema = root.find("G_ema");
    if (ema == nullptr || ema->kind == Kind::kNone) {
      std::vector<std::string> keys;
      for (size_t i = 0; i + 1 < root.items.size() && i < 20; i += 2)
        keys.push_back(printable(root.items[i]->text));
      refuse_file(source_, "no G_ema in it (keys: {})", join(keys, ", "));
    }
    const Module generator = module(*ema, "G_ema");
    const PickledForm& form =
        generator.is_persistent ? form_of_arguments(generator) : form_of_modules(generator);
    Json model;
    if (generator.is_persistent) model = form.model(described(generator));
    add_tensors(generator, "", 0);
    if (!generator.is_persistent) model = form.model(described(generator));
    if (form.needed != nullptr) check_tensors(form.needed(model));
    for (const char* name : {"G", "D"}) {
      const PickleValue* network = root.find(name);
      if (network != nullptr && network->kind != Kind::kNone)
        add_tensors(module(*network, name), std::string(name) + ".", 0);
    }
    return {std::move(model), std::move(found_)};
  }

 private:
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    refuse_file(source_, "{}", fmt::format(format, std::forward<Args>(args)...));
  }

  Module module(const PickleValue& value, const std::string& name) const {
    const bool plain = value.kind == Kind::kObject && is_plain_class(value.text);
    if (plain && value.state != nullptr && value.state->kind == Kind::kDict)
      return {name, printable(value.text), value.state, nullptr, /*is_persistent=*/false};
    if (value.kind != Kind::kObject || value.text != kPersistent)
      bad("{} is {}, no network", name, value.describe());
    const std::vector<const PickleValue*>& arguments = value.arguments->items;
    const PickleValue* meta = arguments.size() == 1 ? arguments[0] : &value;
    const PickleValue* type = meta->find("type");
    const PickleValue* class_name = meta->find("class_name");
    const PickleValue* state = meta->find("state");
    if (type == nullptr || type->text != "class" || class_name == nullptr || state == nullptr ||
        class_name->kind != Kind::kString || state->kind != Kind::kDict) {
      bad("{} is no class with class_name and state", name);
    }
    return {name, printable(class_name->text), state, meta->find("module_src")};
  }

  // The dict `key` of a module's state; empty if there is none.
  std::vector<const PickleValue*> items(const Module& of, const char* key) const {
    const PickleValue* dict = of.state->find(key);
    if (dict == nullptr) return {};
    if (dict->kind != Kind::kDict) bad("{}.{} is {}, no dict", of.name, key, dict->describe());
    return dict->items;
  }

  std::string key_text(const Module& of, const PickleValue& key) const {
    const auto plain = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    };
    if (key.kind != Kind::kString || key.text.empty() || key.text.size() > 100 ||
        !std::all_of(key.text.begin(), key.text.end(), plain)) {
      bad("{}: {} is no name of a parameter", of.name, printable(key.text));
    }
    return std::string(key.text);
  }

  // Parameters, buffers, then those of the modules below, as `prefix` + their names.
  void add_tensors(const Module& of, const std::string& prefix, int depth) {
    constexpr int kDeepest = 16;
    constexpr size_t kMostTensors = 20'000, kMostModules = 20'000;
    if (depth > kDeepest || ++modules_ > kMostModules)
      bad("{}: modules without end inside each other", printable(of.name));
    for (const char* kind : {"_parameters", "_buffers"}) {
      const auto named = items(of, kind);
      for (size_t i = 0; i + 1 < named.size(); i += 2) {
        if (named[i + 1]->kind == Kind::kNone) continue;
        const std::string name = key_text(of, *named[i]);
        if (found_.size() >= kMostTensors) bad("more than {} tensors", kMostTensors);
        const at::Tensor tensor = tensors_.read(*named[i + 1], of.name + "." + name);
        if (!found_.emplace(prefix + name, tensor).second)
          bad("tensor {} is there twice", prefix + name);
      }
    }
    const auto below = items(of, "_modules");
    for (size_t i = 0; i + 1 < below.size(); i += 2) {
      if (below[i + 1]->kind == Kind::kNone) continue;
      const std::string name = key_text(of, *below[i]);
      add_tensors(module(*below[i + 1], of.name + "." + name), prefix + name + ".", depth + 1);
    }
  }

  Json numpy_scalar(const PickleValue& value, const std::string& name) const {
    const std::vector<const PickleValue*>& arguments = value.arguments->items;
    if (arguments.size() != 2 || arguments[1]->kind != Kind::kBytes ||
        arguments[0]->text != "numpy.dtype" || arguments[0]->kind != Kind::kObject ||
        arguments[0]->arguments->items.empty()) {
      bad("{}: no number of numpy", name);
    }
    const std::string_view type = arguments[0]->arguments->items[0]->text;
    const std::string_view bytes = arguments[1]->text;
    const auto as = [&](auto number) -> Json {
      if (bytes.size() != sizeof number)
        bad("{}: {} bytes for a number of {}", name, bytes.size(), sizeof number);
      std::memcpy(&number, bytes.data(), sizeof number);
      return number;
    };
    if (type == "f8") return as(0.0);
    if (type == "f4") return as(0.0F);
    if (type == "i8") return as(int64_t{0});
    if (type == "i4") return as(int32_t{0});
    if (type == "b1") return as(uint8_t{0}) != 0;
    bad("{}: numpy type {} is not known here", name, printable(type));
  }

  // None, numbers, text, lists and dicts of them. `left` values at most.
  Json plain(const PickleValue& value, const std::string& name, int depth, int64_t& left) const {
    if (depth > 8 || --left < 0) bad("{}: too much for a network's arguments", name);
    switch (value.kind) {
      case Kind::kNone:
        return nullptr;
      case Kind::kBool:
        return value.integer != 0;
      case Kind::kInt:
        return value.integer;
      case Kind::kFloat:
        return value.real;
      case Kind::kString:
        return printable(value.text);
      case Kind::kTuple:
      case Kind::kList: {
        Json list = Json::array();
        for (const PickleValue* item : value.items)
          list.push_back(plain(*item, name, depth + 1, left));
        return list;
      }
      case Kind::kObject:
        if (ends_with(value.text, ".multiarray.scalar")) return numpy_scalar(value, name);
        if (value.text != "dnnlib.util.EasyDict") break;
        [[fallthrough]];
      case Kind::kDict: {
        Json dict = Json::object();
        for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
          const std::string key = printable(value.items[i]->text);
          dict[key] = plain(*value.items[i + 1], name + "." + key, depth + 1, left);
        }
        return dict;
      }
      default:
        break;
    }
    bad("{} is {}, which no network's arguments hold", name, value.describe());
  }

  Json constructor_arguments(const Module& generator) const {
    int64_t left = 10'000;
    Json arguments = Json::object();
    if (const PickleValue* positional = generator.state->find("_init_args")) {
      const Json list = plain(*positional, generator.name + "._init_args", 0, left);
      if (!list.is_array() || list.size() > std::size(kPositions))
        bad("{}._init_args are not those of a generator", generator.name);
      for (size_t i = 0; i < list.size(); ++i) arguments[kPositions[i]] = list[i];
    }
    const PickleValue* keywords = generator.state->find("_init_kwargs");
    if (keywords == nullptr) bad("{}: no _init_kwargs in its state", generator.name);
    const Json dict = plain(*keywords, generator.name + "._init_kwargs", 0, left);
    if (!dict.is_object()) bad("{}._init_kwargs is no dict", generator.name);
    for (const auto& [key, value] : dict.items()) arguments[key] = value;
    return arguments;
  }

  // Whether instances of the class are pickled as torch pickles any module.
  bool is_plain_class(std::string_view name) const {
    if (starts_with(name, "torch.nn.modules.")) return true;
    for (const PickledForm* form : forms_) {
      for (const std::string& module : form->modules) {
        if (starts_with(name, module)) return true;
      }
    }
    return false;
  }

  // A qualified name decides; a bare one is shared by all repositories' generators. Throws for
  // classes that are none of them.
  const PickledForm& form_of_arguments(const Module& generator) const {
    const std::string& name = generator.class_name;
    std::vector<const PickledForm*> right;
    for (const PickledForm* form : forms_) {
      const std::vector<std::string>& classes = form->classes;
      if (contains(classes, name)) right.push_back(form);
    }
    if (right.empty()) bad("{} is of class {}; {}", generator.name, name, kSupported);
    const PickleValue* below = generator.state->find("_modules");
    const PickleValue* synthesis = below == nullptr ? nullptr : below->find("synthesis");
    if (synthesis == nullptr) bad("{} has no synthesis network; {}", generator.name, kSupported);
    const Module network = module(*synthesis, generator.name + ".synthesis");
    const PickleValue* layers = network.state->find("_modules");
    const bool has_input = layers != nullptr && layers->find("input") != nullptr;
    for (const PickledForm* form : right) {
      if (form->synthesis_has_input == has_input) return *form;
    }
    bad("{} is of class {}, but its layers are not; {}", generator.name, name, kSupported);
  }

  const PickledForm& form_of_modules(const Module& generator) const {
    for (const PickledForm* form : forms_) {
      for (const std::string& module : form->modules) {
        if (starts_with(generator.class_name, module)) return *form;
      }
    }
    bad("{} is of class {}; {}", generator.name, generator.class_name, kSupported);
  }

  // The arguments that a plain module's constructor has kept as attributes, as far as they are
  // whole numbers.
  Json kept_arguments(const Module& generator) const {
    Json arguments = Json::object();
    for (const char* key : kPositions) {
      const PickleValue* value = generator.state->find(key);
      if (value != nullptr && value->kind == Kind::kInt) arguments[key] = value->integer;
    }
    return arguments;
  }

  PickledGenerator described(const Module& generator) const {
    Json arguments;
    if (!generator.is_persistent) {
      arguments = kept_arguments(generator);
    } else {
      arguments = constructor_arguments(generator);
      for (const char* key : {"z_dim", "c_dim", "w_dim", "img_resolution", "img_channels"}) {
        if (!arguments.contains(key) || !arguments[key].is_number_integer())
          bad("{}: its argument {} is missing or no integer", generator.name, key);
      }
    }
    return {source_,
            generator.name,
            generator.class_name,
            {std::begin(kPositions), std::end(kPositions)},
            std::move(arguments),
            generator.source_text == nullptr ? std::string_view() : generator.source_text->text,
            kSupported,
            found_};
  }

  // The rest is checked where the network is built.
  void check_tensors(const std::vector<std::string>& needed) const {
    for (const std::string& name : needed) {
      if (found_.count(name) == 0) bad("G_ema: tensor {} is missing", name);
    }
  }

  std::vector<const PickledForm*> forms_;  // of the recipes that pickles hold
  std::string source_;
  Pickle pickle_;
  TorchTensors tensors_;
  std::map<std::string, at::Tensor> found_;  // by their names in a model file
  size_t modules_ = 0;
};

}  // namespace

ModelContent read_official_pickle(std::string_view content,
                                  const std::string& source,
                                  const RecipeTable& recipes) {
  return Reader(content, source, recipes).read();
}

}  // namespace gantrain
