// SPDX-License-Identifier: Apache-2.0
#include "nn/script_features.h"

#include <fmt/format.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "core/tensor_files.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "core/zip_archive.h"
#include "nn/modules.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace jit = torch::jit;

namespace {

constexpr size_t kNamedTaps = 12;  // names that a message lists

std::string reason_of_failure(const std::exception& e) {
  const auto* error = dynamic_cast<const c10::Error*>(&e);
  return reason_of_script(error != nullptr ? error->what_without_backtrace() : e.what());
}

// The sub-modules on the way from the network to `value`, a value of its graph: "features.3"; ""
// for the network itself, nothing for what is no module.
std::optional<std::string> module_path(const jit::Value* value, const jit::Value* self) {
  if (value == self) return "";
  const jit::Node* node = value->node();
  if (node->kind() != c10::prim::GetAttr) return std::nullopt;
  const auto above = module_path(node->input(0), self);
  if (!above) return std::nullopt;
  const std::string name = node->s(c10::attr::name);
  return above->empty() ? name : *above + "." + name;
}

// A sub-module of that path.
std::optional<jit::Module> find_module(jit::Module module, const std::string& path) {
  for (const std::string& name : split(path, '.')) {
    if (!module.hasattr(name) || !module.attr(name).isModule()) return std::nullopt;
    module = module.attr(name).toModule();
  }
  return module;
}

// Calls of sub-modules in a graph, by taps, and those of modules that have taps inside.
class TappedGraph {
 public:
  TappedGraph(const jit::Function& forward, const std::vector<std::string>& taps)
      : graph_(jit::toGraphFunction(forward).graph()->copy()), taps_(taps), found_(taps.size()) {
    while (open_one()) {
    }
  }

  // The first tap whose sub-module forward() does not call; nothing where it calls all.
  std::optional<std::string> missing() const {
    for (size_t i = 0; i < taps_.size(); ++i) {
      if (found_[i] == nullptr) return taps_[i];
    }
    return std::nullopt;
  }

  // The graph that returns the tapped values alone, and computes nothing else.
  std::shared_ptr<jit::Graph> finish() {
    while (!graph_->outputs().empty()) graph_->eraseOutput(0);
    jit::Node* tuple = graph_->createTuple(found_);
    graph_->appendNode(tuple);
    graph_->registerOutput(tuple->output());
    jit::EliminateDeadCode(graph_);
    return graph_;
  }

 private:
  // Notes the calls of taps, and puts the body of the first module that has taps inside in the
  // place of its call; false where there is none.
  bool open_one() {
    const jit::Value* self = graph_->inputs().front();
    for (jit::Node* node : graph_->nodes()) {
      if (node->kind() != c10::prim::CallMethod) continue;
      const auto path = module_path(node->input(0), self);
      if (!path) continue;
      bool has_taps_inside = false;
      for (size_t i = 0; i < taps_.size(); ++i) {
        if (taps_[i] == *path) found_[i] = node->output();
        has_taps_inside = has_taps_inside || starts_with(taps_[i], *path + ".") || path->empty();
      }
      if (!has_taps_inside || contains(taps_, *path)) continue;
      const auto type = node->input(0)->type()->cast<c10::ClassType>();
      jit::GraphFunction& callee = jit::toGraphFunction(type->getMethod(node->s(c10::attr::name)));
      // Not its optimised graph, in which no calls are left.
      jit::inlineCallTo(node, &callee, callee.graph().get());
      return true;
    }
    return false;
  }

  std::shared_ptr<jit::Graph> graph_;
  const std::vector<std::string>& taps_;
  std::vector<jit::Value*> found_;
};

// Registers weights and buffers of the network, and of those inside, as buffers of `to`.
void adopt(const jit::Module& from, torch::nn::Module& to) {
  const auto keep = [&](const std::string& name, const Tensor& tensor) {
    tensor.set_requires_grad(false);
    to.register_buffer(name, tensor);
  };
  for (const auto& item : from.named_parameters(/*recurse=*/false)) keep(item.name, item.value);
  for (const auto& item : from.named_buffers(/*recurse=*/false)) keep(item.name, item.value);
  for (const auto& item : from.named_children())
    adopt(item.value, *add_child<ModuleGroup>(to, item.name));
}

using NamedValues = std::vector<std::pair<std::string, c10::IValue>>;

// What forward() returned: the items of a tuple or list by their places, of a dict by their keys.
NamedValues items_of(const c10::IValue& value) {
  NamedValues items;
  const auto add = [&](const c10::IValue& item) {
    items.emplace_back(std::to_string(items.size()), item);
  };
  if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements()) add(item);
  } else if (value.isList()) {
    for (const auto& item : value.toListRef()) add(item);
  } else if (value.isGenericDict()) {
    for (const auto& item : value.toGenericDict())
      items.emplace_back(
          item.key().isString() ? item.key().toStringRef() : fmt::format("{}", item.key().toInt()),
          item.value());
  } else {
    add(value);
  }
  return items;
}

std::string some_names(const std::vector<std::string>& names) {
  const size_t count = std::min(names.size(), kNamedTaps);
  const std::string some = join({names.begin(), names.begin() + static_cast<long>(count)}, ", ");
  return names.empty() ? "none" : some + (names.size() > count ? ", ..." : "");
}

std::string kind_of(const c10::IValue& value) {
  if (!value.isTensor()) return value.tagKind();
  return fmt::format("[{}]", fmt::join(value.toTensor().sizes(), ", "));
}

}  // namespace

struct ScriptFeatures::Program {
  std::string file;
  jit::Module module;
  std::vector<std::string> taps;
  jit::GraphExecutor tapped;  // returns the outputs of sub-modules
  bool is_tapped = false;

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(Exit::kInput, "{}: {}", file, fmt::format(format, std::forward<Args>(args)...));
  }

  void check_arguments(const jit::Function& forward) const {
    const auto& arguments = forward.getSchema().arguments();
    if (arguments.size() < 2) refuse("forward() takes no pictures");
    for (size_t i = 2; i < arguments.size(); ++i) {
      if (!arguments[i].default_value())
        refuse("forward() needs {} beside the pictures", arguments[i].name());
    }
  }

  // Finds out whether the taps are sub-modules, all of them or none: the others are looked for in
  // what is returned.
  void find_taps() {
    const auto forward = module.find_method("forward");
    if (!forward) refuse("the network has no forward()");
    check_arguments(forward->function());
    if (taps.empty()) return;
    is_tapped = std::ranges::all_of(taps, [&](const std::string& tap) { return is_module(tap); });
    if (!is_tapped) return;
    TappedGraph graph(forward->function(), taps);
    if (const auto tap = graph.missing())
      refuse("tap {}: forward() does not call this sub-module once for every picture", *tap);
    tapped = jit::GraphExecutor(graph.finish(), "taps");
  }

  bool is_module(const std::string& tap) const { return find_module(module, tap).has_value(); }

  // Names the tap that is at fault: the first that is nothing at all, else one that is a sub-module
  // beside others that are not.
  [[noreturn]] void refuse_missing(const std::vector<std::string>& missing,
                                   const NamedValues& items) const {
    const auto unknown =
        std::ranges::find_if_not(missing, [&](const std::string& tap) { return is_module(tap); });
    if (unknown != missing.end())
      refuse("no tap {}; there are {}", printable(*unknown), some_names(known_names(items)));
    refuse("tap {} is a sub-module and others are values that forward() returns; name one kind",
           printable(missing.front()));
  }

  std::vector<std::string> known_names(const NamedValues& items) const {
    std::vector<std::string> names;
    for (const auto& item : items) names.push_back(item.first);
    for (const auto& item : module.named_children()) names.push_back(item.name);
    return names;
  }

  // Without the optimising executor: it would compile kernels for each size of pictures.
  NamedValues run(const Tensor& pictures) {
    const jit::GraphOptimizerEnabledGuard plain(false);
    if (!is_tapped) return items_of(module.forward({pictures}));
    jit::Stack stack{module._ivalue(), pictures};
    module.get_method("forward").function().getSchema().checkAndNormalizeInputs(stack, {});
    tapped.run(stack);
    NamedValues items = items_of(stack.back());
    for (size_t i = 0; i < items.size(); ++i) items[i].first = taps[i];
    return items;
  }

  // The items that are tapped, in the order of the taps.
  NamedValues tapped_items(const Tensor& pictures) {
    NamedValues items = run(pictures);
    if (is_tapped) return items;
    if (taps.empty()) {
      if (items.size() == kMaps) return items;
      refuse("forward() returns {}, and {} maps are needed; taps name them, which can be {}",
             items.size() == 1 ? kind_of(items.front().second)
                               : fmt::format("{} values", items.size()),
             kMaps,
             some_names(known_names(items)));
    }
    NamedValues chosen;
    std::vector<std::string> missing;
    for (const std::string& tap : taps) {
      const auto at = std::ranges::find_if(items, [&](const auto& i) { return i.first == tap; });
      at == items.end() ? missing.push_back(tap) : chosen.push_back(*at);
    }
    if (!missing.empty()) refuse_missing(missing, items);
    return chosen;
  }
};

namespace {

// The first and the last megabyte of a file, whose names a zip has there; all of a small file.
// Throws UserError(kInput) that names the file.
std::string ends_of(const std::filesystem::path& file) {
  constexpr std::streamoff kEnd = 1 << 20;
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  const std::streamoff size = in.tellg();
  if (size <= 2 * kEnd) return read_file(file);
  std::string ends(2 * kEnd, '\0');
  in.seekg(0).read(ends.data(), kEnd);
  in.seekg(size - kEnd).read(ends.data() + kEnd, kEnd);
  return in ? ends : read_file(file);
}

}  // namespace

bool is_torchscript(const std::filesystem::path& file) {
  constexpr std::string_view kConstants = "/constants.pkl";
  const auto contains = [&](const std::string& bytes) {
    return bytes.find(kConstants) != std::string::npos;
  };
  const OpenedZip opened = open_zip_archive(file.string());
  zip_t* archive = opened.archive.get();
  if (archive == nullptr) {
    // What cannot be read is refused here. A program that was cut off is known by its bytes, so
    // that its loader refuses it.
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) return contains(read_file(file));
    return is_npz(file) && contains(ends_of(file));
  }
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive, 0); ++i) {
    const char* name = zip_get_name(archive, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
    if (name != nullptr && ends_with(name, kConstants)) return true;
  }
  return false;
}

std::string reason_of_script(const std::string& whole) {
  std::string last, runtime;
  for (const std::string& line : split(whole, '\n')) {
    const std::string text = trim(line);
    if (text.empty()) continue;
    last = text;
    if (starts_with(text, "RuntimeError:")) runtime = text;
  }
  return runtime.empty() ? last : runtime;
}

ScriptFeatures::~ScriptFeatures() = default;

ScriptFeatures::ScriptFeatures(const Choice& choice)
    : choice_(choice), program_(std::make_unique<Program>()) {
  std::string content = read_file(choice.file);
  sha256_ = sha256(content);
  program_->file = choice.file.string();
  program_->taps = choice.taps;
  try {
    std::istringstream hashed(std::move(content));  // the file itself may be another one by now
    program_->module = jit::load(hashed, choice.device);
    program_->module.eval();
  } catch (const std::exception& e) {
    if (tells_of_lacking_memory(e)) throw;  // then the file is not what is wrong
    program_->refuse(
        "no TorchScript that can be loaded on {}: {}", choice.device.str(), reason_of_failure(e));
  }
  if (!choice.taps.empty() && choice.taps.size() != kMaps)
    program_->refuse("{} taps are named, and {} are needed", choice.taps.size(), kMaps);
  adopt(program_->module, *this);
  file_hash_ = register_buffer("file_sha256", at::zeros({32}, at::kByte));
  for (size_t i = 0; i < 32; ++i)
    file_hash_[static_cast<int64_t>(i)].fill_(std::stoi(sha256_.substr(2 * i, 2), nullptr, 16));
  to_device(*this, choice.device, at::kFloat);
  program_->find_taps();
  look_once();
}

// What is wrong with the network shows with the first picture, before anything is trained.
void ScriptFeatures::look_once() {
  const torch::AutoGradMode gradients(true);
  const int64_t side = choice_.side;
  const Tensor picture =
      at::zeros({1, 3, side, side}, at::TensorOptions(choice_.device)).requires_grad_();
  NamedValues items;
  try {
    items = program_->tapped_items(picture);
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& e) {  // of LibTorch, or what TorchScript itself throws
    if (tells_of_lacking_memory(e)) throw;
    program_->refuse(
        "cannot look at a picture [1, 3, {}, {}]: {}", side, side, reason_of_failure(e));
  }
  choice_.taps.clear();
  for (size_t i = 0; i < kMaps; ++i) {
    const auto& [name, value] = items[i];
    const int64_t wanted = side >> (i + 2);
    const bool fits = value.isTensor() && value.toTensor().dim() == 4 &&
                      value.toTensor().size(0) == 1 && value.toTensor().size(2) == wanted &&
                      value.toTensor().size(3) == wanted;
    if (!fits) {
      program_->refuse("tap {} is {} for a picture [1, 3, {}, {}]; map {} is [1, C, {}, {}]",
                       name,
                       kind_of(value),
                       side,
                       side,
                       i,
                       wanted,
                       wanted);
    }
    if (!value.toTensor().is_floating_point() || !value.toTensor().requires_grad())
      program_->refuse("tap {}: no gradient goes from it to the picture", name);
    if (!value.toTensor().isfinite().all().item<bool>())
      program_->refuse("tap {}: its map of a grey picture has values that are not finite", name);
    channels_[i] = value.toTensor().size(1);
    choice_.taps.push_back(name);
  }
}

std::array<Tensor, ScriptFeatures::kMaps> ScriptFeatures::maps(const Tensor& pictures) {
  if (!is_checked_) {  // one wait for the device, in the first iteration
    const Tensor bytes = file_hash_.cpu();
    std::string held;
    for (int64_t i = 0; i < bytes.numel(); ++i)
      held += fmt::format("{:02x}", bytes.const_data_ptr<uint8_t>()[i]);
    if (held != sha256_) {
      program_->refuse(
          "SHA-256 {:.12}..., but this run began with the features of a file of {:.12}...",
          sha256_,
          held);
    }
    is_checked_ = true;
  }
  NamedValues items = program_->tapped_items(pictures);
  std::array<Tensor, kMaps> all;
  for (size_t i = 0; i < kMaps; ++i) all[i] = items[i].second.toTensor();
  return all;
}

std::string ScriptFeatures::description() const {
  std::vector<std::string> each;
  for (size_t i = 0; i < kMaps; ++i) {
    const int64_t side = choice_.side >> (i + 2);
    each.push_back(
        fmt::format("{} [{}, {}, {}]", printable(choice_.taps[i]), channels_[i], side, side));
  }
  return fmt::format("{} (TorchScript, SHA-256 {:.12}): maps {}",
                     choice_.file.filename().string(),
                     sha256_,
                     join(each, ", "));
}

}  // namespace gantrain
