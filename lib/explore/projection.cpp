// SPDX-License-Identifier: Apache-2.0
#include "explore/projection.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>

#include "config/config.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "data/pictures/dataset.h"
#include "draw/draw.h"
#include "draw/frames.h"
#include "draw/painter.h"
#include "image/resize.h"
#include "report/grid.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/system.h"

namespace gantrain {

namespace {

std::vector<std::string> names_of(const std::vector<std::string>& files) {
  std::map<std::string, std::string> known;
  std::vector<std::string> names;
  for (const std::string& file : files) {
    const std::string name = fs::path(file).stem().string();
    const auto [at, fresh] = known.emplace(name, file);
    if (!fresh) {
      fail(Exit::kUsage,
           "{} and {}: what is found would be written to one file, {}.npz; project them into two "
           "folders",
           at->second,
           file,
           name);
    }
    names.push_back(name);
  }
  return names;
}

// uint8 or uint16 [C, H, W].
Tensor planes_of(const ImageView& image) {
  const bool wide = image.depth == 16;
  Tensor planes =
      torch::empty({image.channels, image.height, image.width}, wide ? at::kUInt16 : at::kByte);
  if (wide) {
    copy_planes(image, /*flipped=*/false, planes.data_ptr<uint16_t>());
  } else {
    copy_planes(image, /*flipped=*/false, planes.data_ptr<uint8_t>());
  }
  return planes;
}

Image load_target(const std::string& file, Size size, const PictureValues& values) {
  if (fs::is_directory(file))
    fail(Exit::kInput, "{}: a folder; name its pictures: {}/*.png", file, file);
  DataOptions options;
  options.resolution = size;
  Image image;
  decode_image(read_file(file), file, {.depth = values.depth}, image);
  check_channels(
      {image.width, image.height, image.channels, image.depth, image.stack}, values.channels, file);
  return prepare(image, values.channels, options);
}

// Keys of the state's metadata.
constexpr const char* kRequest = "gantrain.project";
constexpr const char* kDigest = "gantrain.sha256";

// SHA-256 of the tensors, in the order of their names.
std::string digest_of(const std::map<std::string, Tensor>& tensors) {
  return sha256_of({tensors.begin(), tensors.end()});
}

// A projection's folder, with the state from which it goes on after it was stopped.
class ProjectionFolder {
 public:
  // `request`: all that the result depends on. Throws UserError(kDisk) for a folder that cannot be
  // made or written to.
  ProjectionFolder(const fs::path& folder, const Json& request)
      : folder_(folder), request_(request) {
    make_writable_folder(folder);
  }

  // Returns the state that was saved, if any. Throws UserError(kUsage) that names what differs
  // where it was another request, and UserError(kInput) where the state is broken.
  std::optional<std::map<std::string, Tensor>> load() const {
    if (!fs::exists(state_file())) return std::nullopt;
    const std::string name = state_file().string();
    const std::string mend = "give another --outdir, or remove the file to begin again";
    TensorFile file;
    Json before;
    try {
      file = load_safetensors(state_file());
      const auto metadata = file.metadata.find(kRequest);
      if (metadata == file.metadata.end()) fail(Exit::kInput, "{}: no {} in it", name, kRequest);
      before = parse_json(metadata->second, name, Exit::kInput);
      const auto digest = file.metadata.find(kDigest);
      if (digest == file.metadata.end() || digest->second != digest_of(file.tensors))
        fail(Exit::kInput, "{}: its content was changed or damaged", name);
    } catch (const UserError& e) {
      fail(Exit::kInput, "{}; {}", e.what(), mend);
    }
    for (const auto& [key, now] : request_.items()) {
      // A state without the key was of a request that did not give it.
      const Json was = before.is_object() && before.contains(key) ? before[key] : Json("");
      if (was == now) continue;
      fail(Exit::kUsage,
           "{}: of another projection ({} was {}, is {}); {}",
           name,
           key,
           text_of(was),
           text_of(now),
           mend);
    }
    return file.tensors;
  }

  // Writes the state, whole or not at all.
  void save(const NamedTensors& state) const {
    const std::string digest = digest_of({state.begin(), state.end()});
    save_safetensors(state_file(), state, {{kRequest, request_.dump()}, {kDigest, digest}});
  }

  fs::path file(const std::string& name) const { return folder_ / name; }
  fs::path state_file() const { return file("project-state.safetensors"); }

 private:
  fs::path folder_;
  Json request_;
};

constexpr double kSaveSeconds = 10;           // between two states
constexpr int64_t kTriedPixels = 1 << 20;     // of all samples that starts are chosen from
constexpr int64_t kMostTried = 1024;          // samples
constexpr int64_t kSmallPicture = 128 * 128;  // pixels, up to which several starts are cheap
constexpr int64_t kStarts = 4;
constexpr double kClipFps = 30;
constexpr int64_t kLastFrames = 30;  // for which the clip shows the result

ProjectionSpace space_of(const ProjectRequest& request, const Generator& generator) {
  const bool styles = generator.num_ws() > 0;
  if (request.space == ProjectionSpace::kAuto)
    return styles ? ProjectionSpace::kW : ProjectionSpace::kZ;
  if (request.space != ProjectionSpace::kZ) {
    const auto name = names(ProjectionSpace{})[static_cast<size_t>(request.space)];
    require_styles(generator, fmt::format("--space {}", name), request.how.model);
  }
  return request.space;
}

// [C, H, W] of the generator's pictures.
std::vector<int64_t> picture_shape(const LatentSpace& space) {
  const torch::NoGradGuard no_grad;
  const Tensor number = torch::zeros({1}, at::kLong);
  const Tensor latents = space.unfolded(space.samples().narrow(0, 0, 1));
  const Tensor picture = space.pictures(latents, space.labels_of(number), false);
  return picture.sizes().slice(1).vec();
}

std::string hash_of(const Tensor& bytes) {
  const Tensor dense = bytes.contiguous();
  Digest digest;
  digest.update(dense.const_data_ptr(), dense.nbytes());
  return digest.hex();
}

// One projection from its targets to its files.
class Projection {
 public:
  Projection(const ProjectionTools& tools, const ProjectRequest& request)
      : tools_(tools),
        request_(request),
        painter_(tools.generator, request.how, /*styles_given=*/true),
        space_(tools.generator,
               painter_.synthesis(),
               space_of(request, tools.generator),
               choose_classes(tools.generator, request.how, tools.classes).tensor()),
        shape_(picture_shape(space_)),
        targets_(load_targets(request.images,
                              {.width = shape_[2], .height = shape_[1]},
                              {shape_[0], request.how.depth})),
        wanted_(from_bytes(targets_.pictures).to(device())),
        options_(projector_options()),
        shown_(clip_channels()),
        folder_(request.outdir, identity()),
        projector_(space_, wanted_, options_) {
    if (tools.further) projector_.add_loss(tools.further(wanted_));
  }

  Json run() {
    seek();
    folder_.save(projector_.state());
    const Json result = write_files();
    if (!request_.clip.empty()) write_clip();
    return result;
  }

 private:
  void begin() {
    if (const auto state = folder_.load()) {
      projector_.load_state(*state);
      info("{} of {} steps were done already", projector_.steps_done(), options_.steps);
    } else {
      projector_.begin();
      folder_.save(projector_.state());
    }
  }

  at::Device device() const { return request_.how.cuda ? at::Device(at::kCUDA, 0) : at::kCPU; }

  ProjectorOptions projector_options() const {
    const int64_t pixels = shape_[1] * shape_[2];
    ProjectorOptions options;
    options.steps = request_.steps;
    options.lr = request_.lr;
    options.seed = static_cast<uint64_t>(request_.seed);
    options.tried = std::clamp<int64_t>(kTriedPixels / pixels, 1, kMostTried);
    options.starts = pixels <= kSmallPicture ? kStarts : 1;
    if (request_.starts > 0) options.starts = request_.starts;
    options.tried = std::max(options.tried, options.starts);
    return options;
  }

  // Pairs side by side in the clip.
  int64_t clip_columns() const {
    return static_cast<int64_t>(
        std::ceil(std::sqrt(static_cast<double>(targets_.names.size()) / 2)));
  }

  // The channels that the clip shows. A clip that cannot be is refused before the steps.
  std::vector<int64_t> clip_channels() const {
    const int64_t columns = clip_columns();
    const int64_t rows = (targets_.pictures.size(0) + columns - 1) / columns;
    if (!request_.clip.empty()) {
      check_frame_size("--clip",
                       request_.clip,
                       {2 * columns * shape_[2], rows * shape_[1]},
                       "use .mp4 or fewer pictures");
    }
    return read_channels("--channels", request_.how.channels, shape_[0]);
  }

  // What --label gives: of a file its numbers.
  std::string label_identity() const {
    if (request_.how.label.empty()) return "";
    return hash_of(choose_classes(tools_.generator, request_.how, tools_.classes).tensor());
  }

  // All that the result depends on.
  Json identity() const {
    const SynthesisOptions& how = painter_.synthesis();
    return {{"model", sha256_of(state_of(*tools_.generator.network()))},
            {"pictures", hash_of(targets_.pictures)},
            {"names", targets_.names},
            {"space", Value<ProjectionSpace>::to_json(space_.space())},
            {"steps", options_.steps},
            {"lr", options_.lr},
            {"starts", options_.starts},
            {"seed", options_.seed},
            {"class", request_.how.classes},
            {"label", label_identity()},
            {"noise_mode", Value<NoiseMode>::to_json(how.noise)},
            {"level", how.level},
            {"alpha", how.alpha},
            {"detector", tools_.detector}};
  }

  void seek() {
    Job job(options_.steps, "steps");
    begin();
    double saved = monotonic_seconds();
    while (!projector_.finished()) {
      projector_.step();
      if (const int signal = job.take_signal(); signal != 0) stop(signal);
      if (monotonic_seconds() - saved > kSaveSeconds) {
        folder_.save(projector_.state());
        saved = monotonic_seconds();
      }
      job.step_to(projector_.steps_done());
    }
  }

  [[noreturn]] void stop(int signal) const {
    folder_.save(projector_.state());
    fail(signal == SIGINT ? Exit::kInterrupted : Exit::kStopped,
         "stopped by signal {} after {} of {} steps, saved in {}; the same command goes on",
         signal,
         projector_.steps_done(),
         options_.steps,
         folder_.state_file().string());
  }

  Json write_files() const {
    const Tensor latents = projector_.latents();
    const Tensor made = to_depth(projector_.pictures(latents), request_.how.depth);
    const Tensor stored = space_.for_files(latents).contiguous().cpu();
    const Tensor quality = psnr(made, targets_.pictures);
    const char* key = space_.space() == ProjectionSpace::kZ ? "z" : "w";
    Json result = {{"outdir", request_.outdir},
                   {"space", Value<ProjectionSpace>::to_json(space_.space())},
                   {"steps", options_.steps},
                   {"pictures", Json::array()}};
    const PictureFolder pictures(request_.outdir, PictureFormat::kPng, request_.how.depth);
    for (size_t i = 0; i < targets_.names.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const std::string& name = targets_.names[i];
      const std::filesystem::path npz = folder_.file(name + ".npz");
      save_npz(npz, {{key, stored.narrow(0, at, 1)}});
      pictures.write(name + "-projected", made[at]);
      pictures.write(name + "-target", targets_.pictures[at]);
      const double db = quality[at].item<double>();
      info("{}: PSNR {:.2f} dB, {}", targets_.files[i], db, npz.string());
      Json row = {{"image", targets_.files[i]}, {"npz", npz.string()}};
      row["psnr"] = std::isfinite(db) ? Json(db) : Json();
      if (const Tensor labels = projector_.labels(); labels.defined() && key[0] == 'z')
        add_label(labels[at], row);
      result["pictures"].push_back(row);
    }
    return result;
  }

  void add_label(const Tensor& label, Json& row) const {
    if (label.dim() == 0) {
      row["class"] = label.item<int64_t>();
      return;
    }
    const Tensor numbers = label.to(at::kFloat).cpu().contiguous();
    const auto* first = numbers.const_data_ptr<float>();
    row["label"] = text_of_vector({first, first + numbers.numel()}, tools_.classes);
  }

  // Each target beside the picture of every step that was kept, and of the result for a second.
  void write_clip() const {
    const Tensor way = projector_.way();
    const auto sink = film_sink(request_.clip, {.fps = kClipFps, .quality = 90});
    Job job(way.size(0) + kLastFrames, "frames");
    const auto add = [&](const Tensor& latents) {
      const Tensor made = to_depth(projector_.pictures(latents), request_.how.depth);
      const Tensor pairs = torch::stack({targets_.pictures, made}, 1).flatten(0, 1);
      sink->add(tile(shown_channels(pairs, shown_), 2 * clip_columns()));
      job.step();
    };
    for (int64_t i = 0; i < way.size(0); ++i) add(way[i]);
    for (int64_t i = 0; i < kLastFrames; ++i) add(projector_.latents());
    sink->finish();
  }

  const ProjectionTools& tools_;
  const ProjectRequest& request_;
  Painter painter_;
  LatentSpace space_;
  std::vector<int64_t> shape_;  // of the generator's pictures: channels, height, width
  Targets targets_;
  Tensor wanted_;  // the targets in [-1, 1], on the generator's device
  ProjectorOptions options_;
  std::vector<int64_t> shown_;  // channels, in the clip
  ProjectionFolder folder_;
  Projector projector_;
};

}  // namespace

Targets load_targets(const std::vector<std::string>& files,
                     Size size,
                     const PictureValues& values) {
  Targets targets{files, names_of(files), {}};
  std::vector<Tensor> pictures;
  for (const std::string& file : files) {
    const Image picture = load_target(file, size, values);
    pictures.push_back(planes_of(view_of(picture)));
  }
  targets.pictures = torch::stack(pictures);
  return targets;
}

namespace {

double largest_of(const Tensor& pictures) {
  return pictures.scalar_type() == at::kUInt16 ? 65535 : 255;
}

}  // namespace

Tensor from_bytes(const Tensor& pictures) {
  const double half = largest_of(pictures) / 2;
  return (pictures.to(at::kFloat) - half) / half;
}

Tensor psnr(const Tensor& a, const Tensor& b) {
  const Tensor error = (a.to(at::kDouble) - b.to(at::kDouble)).square().mean({1, 2, 3});
  const double peak = largest_of(a);
  return 10 * torch::log10(peak * peak / error);
}

Json project_pictures(const ProjectionTools& tools, const ProjectRequest& request) {
  for (Tensor& parameter : tools.generator.network()->parameters()) parameter.requires_grad_(false);
  Projection projection(tools, request);
  return projection.run();
}

}  // namespace gantrain
