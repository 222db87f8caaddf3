// SPDX-License-Identifier: Apache-2.0
#include "core/tensors.h"

#include <set>

#include "core/torch.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/wording.h"

namespace gantrain {

namespace {

using Draw = void (Stream::*)(float* out, int64_t count, uint64_t sample) const;

Tensor draw_each(const Stream& stream, const Samples& samples, at::IntArrayRef shape, Draw draw) {
  std::vector<int64_t> all = shape.vec();
  all.insert(all.begin(), samples.count);
  Tensor out = at::empty(all);
  const int64_t each = samples.count == 0 ? 0 : out.numel() / samples.count;
  float* data = out.data_ptr<float>();
  for (int64_t i = 0; i < samples.count; ++i) {
    (stream.*draw)(
        data + i * each, each, static_cast<uint64_t>(samples.first + i * samples.stride));
  }
  return out;
}

RunningStatistics*& innermost() {
  thread_local RunningStatistics* scope = nullptr;
  return scope;
}

}  // namespace

Tensor normal(const Stream& stream, const Samples& samples, at::IntArrayRef shape) {
  return draw_each(stream, samples, shape, &Stream::normal);
}

Tensor uniform(const Stream& stream, const Samples& samples, at::IntArrayRef shape) {
  return draw_each(stream, samples, shape, &Stream::uniform);
}

Tensor normal_like(const Tensor& tensor, uint64_t seed, const std::string& purpose) {
  return normal(Stream(seed, purpose), {0, 1, 1}, tensor.sizes()).squeeze(0);
}

Tensor uniform_like(const Tensor& tensor, double bound, uint64_t seed, const std::string& purpose) {
  const Tensor drawn = uniform(Stream(seed, purpose), {0, 1, 1}, {tensor.numel()});
  return (drawn.reshape(tensor.sizes()) * 2 - 1).mul_(bound).to(tensor.options());
}

NamedTensors state_of(const torch::nn::Module& network) {
  NamedTensors all;
  for (const auto& item : network.named_parameters()) all.emplace_back(item.key(), item.value());
  for (const auto& item : network.named_buffers()) all.emplace_back(item.key(), item.value());
  return all;
}

StateTensors state_with_kinds(const torch::nn::Module& network) {
  std::set<std::string> moved;
  const auto look = [&moved](const torch::nn::Module& module, const std::string& prefix) {
    const auto* owner = dynamic_cast<const HasRunningStatistics*>(&module);
    if (owner == nullptr) return;
    for (const std::string& name : owner->running_statistics()) moved.insert(prefix + name);
  };
  look(network, "");
  for (const auto& module : network.named_modules("", /*include_self=*/false))
    look(*module.value(), module.key() + ".");
  StateTensors all;
  for (const auto& item : network.named_parameters())
    all.push_back({item.key(), item.value(), StateKind::kParameter});
  for (const auto& item : network.named_buffers()) {
    const bool running = moved.count(item.key()) != 0;
    all.push_back(
        {item.key(), item.value(), running ? StateKind::kRunningStatistic : StateKind::kConstant});
  }
  return all;
}

NamedTensors named(const StateTensors& state) {
  NamedTensors all;
  for (const StateTensor& item : state) all.emplace_back(item.name, item.tensor);
  return all;
}

namespace {

// set_data() takes no tensor of the meta device in a CPU's place.
struct OpenImpl : c10::TensorImpl {
  using c10::TensorImpl::copy_tensor_metadata;
};

void set_to(Tensor& tensor, const Tensor& moved) {
  if (!moved.is_meta()) return tensor.set_data(moved);
  OpenImpl::copy_tensor_metadata(moved.unsafeGetTensorImpl(),
                                 tensor.unsafeGetTensorImpl(),
                                 c10::VariableVersion(/*version=*/0),
                                 /*allow_tensor_metadata_change=*/true);
}

}  // namespace

void to_device(torch::nn::Module& network, at::Device device, at::ScalarType dtype) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : state_of(network))
    set_to(tensor, tensor.is_floating_point() ? tensor.to(device, dtype) : tensor.to(device));
}

std::string sha256_of(const NamedTensors& tensors) {
  std::string bytes;
  for (const auto& [name, tensor] : tensors) {
    const Tensor flat = tensor.detach().cpu().contiguous();
    bytes += name;
    bytes.append(static_cast<const char*>(flat.data_ptr()), flat.nbytes());
  }
  return sha256(bytes);
}

void load_into(const torch::nn::Module& network,
               const std::map<std::string, Tensor>& tensors,
               const std::string& source,
               const std::string& prefix) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : state_of(network)) {
    const auto at = tensors.find(prefix + name);
    if (at == tensors.end()) fail(Exit::kInput, "{}: tensor {} is missing", source, prefix + name);
    if (at->second.sizes() != tensor.sizes()) {
      fail(Exit::kInput,
           "{}: tensor {} has shape [{}], [{}] is needed",
           source,
           prefix + name,
           fmt::join(at->second.sizes(), ", "),
           fmt::join(tensor.sizes(), ", "));
    }
    if (tensor.is_floating_point() && !at->second.is_floating_point())
      fail(Exit::kInput,
           "{}: tensor {} is of {}, and numbers with fractions are needed",
           source,
           prefix + name,
           c10::toString(at->second.scalar_type()));
    tensor.copy_(at->second);
  }
}

void refuse_nonfinite(const std::map<std::string, Tensor>& tensors, const std::string& source) {
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.is_floating_point() || tensor.numel() == 0) continue;
    const int64_t bad = tensor.numel() - at::isfinite(tensor).sum().item<int64_t>();
    if (bad == 0) continue;
    fail(Exit::kInput,
         "{}: tensor {}: {} of {} values are not finite ({} inspect shows all)",
         source,
         name,
         bad,
         tensor.numel(),
         program());
  }
}

Tensor& RunningStatistics::next(const Tensor& buffer) {
  for (Moved& moved : moved_) {
    if (moved.buffer.is_same(buffer)) return moved.next;
  }
  const torch::NoGradGuard no_grad;
  moved_.push_back({buffer, buffer.clone()});
  return moved_.back().next;
}

void RunningStatistics::add(const RunningStatistics& other) {
  for (const Moved& moved : other.moved_) {
    for (const Moved& own : moved_) TORCH_CHECK(!own.buffer.is_same(moved.buffer));
    moved_.push_back(moved);
  }
}

void RunningStatistics::apply() const {
  const torch::NoGradGuard no_grad;
  for (const Moved& moved : moved_) {
    Tensor buffer = moved.buffer;
    buffer.copy_(moved.next);
  }
}

RunningStatisticsScope::RunningStatisticsScope(RunningStatistics& into) : outer_(innermost()) {
  innermost() = &into;
}

RunningStatisticsScope::~RunningStatisticsScope() { innermost() = outer_; }

RunningStatistics* noted_running_statistics() { return innermost(); }

Tensor to_bytes(const Tensor& images) {
  if (images.scalar_type() == at::kByte) return images.cpu();
  if (images.scalar_type() == at::kUInt16)
    return images.cpu().to(at::kInt).add_(128).div_(257, "floor").to(at::kByte);
  const Tensor scaled = images.detach().to(at::kFloat).mul(127.5).add_(128);
  return scaled.nan_to_num_(0).clamp_(0, 255).to(at::kByte).cpu();
}

}  // namespace gantrain
