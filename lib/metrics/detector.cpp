// SPDX-License-Identifier: Apache-2.0
#include "metrics/detector.h"

#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/profiling_graph_executor_impl.h>
#include <torch/script.h>

#include <set>
#include <sstream>
#include <utility>

#include "nn/script_features.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr const char* kFeatures = "return_features";
constexpr const char* kLpips = "return_lpips";
constexpr double kSumError = 1e-2;  // of a row of probabilities, which may come from half precision

}  // namespace

struct Detector::Impl {
  torch::jit::Module module;
  at::Device device = at::kCPU;
  std::set<std::string> keywords;

  bool has(const std::string& keyword) const { return keywords.count(keyword) != 0; }
};

Detector::~Detector() = default;

Detector::Detector(const std::filesystem::path& file,
                   at::Device device,
                   const std::string& wanted_sha256)
    : file_(file.string()), name_(file.filename().string()), impl_(std::make_unique<Impl>()) {
  impl_->device = device;
  std::string content = read_file(file);
  sha256_ = gantrain::sha256(content);
  if (wanted_sha256.empty() && starts_with(content, "PK")) {  // a zip archive, as TorchScript is
    info(
        "detector {} is a program that runs with your rights; --detector-sha256 {} refuses any "
        "other file",
        name_,
        sha256_);
  } else if (!wanted_sha256.empty() && lower(wanted_sha256) != sha256_) {
    fail(Exit::kInput,
         "{}: sha256 {} is wanted, but this file's is {}; it was not run",
         file_,
         wanted_sha256,
         sha256_);
  }
  try {
    std::istringstream hashed(std::move(content));  // the file itself may be another one by now
    impl_->module = torch::jit::load(hashed, device);
    impl_->module.eval();
  } catch (const std::exception& e) {
    if (tells_of_lacking_memory(e)) throw;  // then the file is not what is wrong
    fail(Exit::kInput,
         "{}: not a TorchScript file (torch.jit.script(network).save(FILE) writes one); pickles "
         "and state dicts cannot be run without their source",
         file_);
  }
  const auto forward = impl_->module.find_method("forward");
  if (!forward) fail(Exit::kInput, "{}: the network has no forward()", file_);
  const std::vector<c10::Argument>& arguments = forward->function().getSchema().arguments();
  for (size_t i = 2; i < arguments.size(); ++i) {
    if (arguments[i].default_value()) {
      impl_->keywords.insert(arguments[i].name());
      continue;
    }
    fail(Exit::kInput,
         "{}: forward() needs {} beside the pictures; a detector is called with pictures alone",
         file_,
         arguments[i].name());
  }
  if (arguments.size() < 2) fail(Exit::kInput, "{}: forward() takes no pictures", file_);
}

bool Detector::has_probabilities() const { return impl_->has(kFeatures); }
bool Detector::has_lpips() const { return impl_->has(kLpips); }

at::Tensor Detector::features(const at::Tensor& pictures) {
  return run(pictures, impl_->has(kFeatures) ? kFeatures : "", "features");
}

at::Tensor Detector::probabilities(const at::Tensor& pictures) {
  if (!has_probabilities()) {
    fail(Exit::kInput,
         "{}: gives no class probabilities (its forward() has no return_features=False), which "
         "the metric \"is\" needs",
         file_);
  }
  const at::Tensor rows =
      run(pictures, impl_->has("no_output_bias") ? "no_output_bias" : "", "probabilities");
  const double worst = (rows.sum(1, false, at::kDouble) - 1).abs().max().item<double>();
  if (rows.min().item<double>() < 0 || worst > kSumError) {
    fail(Exit::kInput,
         "{}: returns no class probabilities, which the metric \"is\" needs: each row must add up "
         "to "
         "1 without negative numbers (are these logits?)",
         file_);
  }
  return rows;
}

at::Tensor Detector::lpips(const at::Tensor& pictures) {
  if (!has_lpips()) {
    fail(Exit::kInput,
         "{}: gives no LPIPS vectors (its forward() has no return_lpips), which ppl needs",
         file_);
  }
  return run(pictures, kLpips, "LPIPS vectors");
}

at::Tensor Detector::run(const at::Tensor& pictures, const std::string& keyword, const char* what) {
  const at::NoGradGuard no_gradients;
  const at::Tensor rows = look(pictures, keyword, what).to(at::kCPU, at::kFloat).contiguous();
  if (!rows.isfinite().all().item<bool>())
    fail(Exit::kInput, "{}: returns {} that are not finite", file_, what);
  return rows;
}

at::Tensor Detector::differentiable(const at::Tensor& pictures) {
  if (has_lpips()) return look(pictures, kLpips, "LPIPS vectors");
  return look(pictures, impl_->has(kFeatures) ? kFeatures : "", "features");
}

// Without the optimising executor: it would compile kernels for each size of pictures, which takes
// longer than it saves and has failed on published detectors.
at::Tensor Detector::look(const at::Tensor& pictures,
                          const std::string& keyword,
                          const char* what) {
  const torch::jit::GraphOptimizerEnabledGuard plain(false);
  torch::jit::Kwargs keywords;
  if (!keyword.empty()) keywords[keyword] = true;
  if (keyword == kLpips && impl_->has("resize_images")) keywords["resize_images"] = false;
  c10::IValue out;
  const auto refuse = [&](const std::string& whole) {
    fail(Exit::kInput,
         "{}: cannot look at pictures [{}]: {}",
         file_,
         fmt::join(pictures.sizes(), ", "),
         reason_of_script(whole));
  };
  try {
    out = impl_->module.forward({to_rgb(pictures).to(impl_->device)}, keywords);
  } catch (const std::exception& e) {  // LibTorch's, or what TorchScript itself throws
    if (tells_of_lacking_memory(e)) throw;
    const auto* error = dynamic_cast<const c10::Error*>(&e);
    refuse(error != nullptr ? error->what_without_backtrace() : e.what());
  }
  if (!out.isTensor()) fail(Exit::kInput, "{}: returns a {}, not a tensor", file_, out.tagKind());
  at::Tensor rows = out.toTensor();
  if (rows.dim() > 2 && rows.numel() == rows.size(0) * rows.size(1)) rows = rows.flatten(1);
  if (rows.dim() != 2 || rows.size(0) != pictures.size(0) || rows.size(1) == 0) {
    fail(Exit::kInput,
         "{}: returns [{}] for {} pictures; {} are [N, F]",
         file_,
         fmt::join(rows.sizes(), ", "),
         pictures.size(0),
         what);
  }
  return rows;
}

at::Tensor to_rgb(const at::Tensor& pictures) {
  const int64_t channels = pictures.size(1);
  at::Tensor x = pictures.to(at::kFloat);
  if (channels > 4) return x.narrow(1, 0, 3).contiguous();
  if (channels % 2 == 0) {
    const at::Tensor alpha = x.narrow(1, channels - 1, 1) / 255;
    x = x.narrow(1, 0, channels - 1) * alpha + 255 * (1 - alpha);
  }
  return x.expand({-1, 3, -1, -1}).contiguous();
}

}  // namespace gantrain
