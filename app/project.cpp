// SPDX-License-Identifier: Apache-2.0
#include "drawing_model.h"
#include "explore/detector_loss.h"
#include "explore/projection.h"
#include "metrics/detector.h"
#include "trainer_verbs.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

// The flags without which `generate` would make another picture of the same latents.
std::string given_flags(const ModelRequest& how) {
  std::string flags;
  if (how.noise_mode) {
    flags +=
        fmt::format(" --noise-mode {}", names(NoiseMode{})[static_cast<size_t>(*how.noise_mode)]);
  }
  if (how.level) flags += fmt::format(" --level {}", *how.level);
  if (how.alpha) flags += fmt::format(" --alpha {}", *how.alpha);
  return flags;
}

}  // namespace

int project(ProjectRequest request) {
  const std::string flags = given_flags(request.how);  // loading fills in the model's own
  const DrawingModel model = load_drawing_model(request.how);
  ProjectionTools tools{*model.generator, model.classes};
  std::shared_ptr<Detector> detector;
  if (!request.detector.empty()) {
    const at::Device device = request.how.cuda ? at::Device(at::kCUDA, 0) : at::kCPU;
    detector = std::make_shared<Detector>(request.detector, device);
    tools.detector = detector->sha256();
    tools.further = [detector](const at::Tensor& targets) {
      return detector_loss(detector, targets);
    };
  }
  const Json result = project_pictures(tools, request);
  const Json& first = result["pictures"].front();
  const bool z = text_of(result["space"]) == "z";
  info("next    gantrain generate --model {} --{} {}{}{} -o projected.png",
       shell_quote(request.how.model),
       z ? "z" : "w",
       shell_quote(text_of(first["npz"])),
       first.contains("class") ? " --class " + text_of(first["class"]) : "",
       flags);
  if (request.json) fmt::print("{}\n", result.dump());
  return 0;
}

}  // namespace gantrain
