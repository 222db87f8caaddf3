// SPDX-License-Identifier: Apache-2.0
#include "recipes/dcgan/options.h"

namespace gantrain::dcgan {

namespace {

void check_resolution(const Size& resolution) {
  check_doubled_size("DCGAN's networks", resolution, {.fewest = 1, .most = 5});
}

// Whether the script in PyTorch trains what such a configuration asks for.
bool script_fits(const Config& config) {
  const auto o = config.read<Options>();
  const bool normalises =
      o.g_norm.value_or(o.norm) == Norm::kBatch && o.d_norm.value_or(o.norm) == Norm::kBatch;
  return config.get("data.resolution") == 64 && config.get("dcgan.loss") == "dcgan" && normalises &&
         config.get("G.steps") == 1 && config.get("D.steps") == 1;
}

// The same in PyTorch, whose network is for one size, in one layout of memory.
BenchScript pytorch_script(const std::string& layout) {
  return {.title = "PyTorch, " + layout,
          .file = "dcgan.py",
          .arguments = {{"--batch", "train.batch"},
                        {"--latent", "dcgan.latent"},
                        {"--channels", "dcgan.channels"},
                        {"--d-channels", "dcgan.d_channels"}},
          .more = {"--layout", layout},
          .fits = script_fits};
}

std::vector<LossAtEquilibrium> equilibrium(const SettingOf& setting) {
  if (setting("dcgan.loss") != "dcgan") return {};
  return nonsaturating_equilibrium();
}

// Batch norm's means are those of a rank's share, unless dist.sync_bn shares them.
int64_t together(const Config& config) {
  const auto o = config.read<Options>();
  const bool has_batch_norm =
      o.g_norm.value_or(o.norm) == Norm::kBatch || o.d_norm.value_or(o.norm) == Norm::kBatch;
  const bool shared = config.get("dist.sync_bn") == true;
  return has_batch_norm && !shared ? config.get("train.batch").get<int64_t>() : 1;
}

std::vector<std::string> complete(Config& config, const Site&) {
  choose_augmentation(config);
  const auto o = config.read<Options>();
  if (o.loss != Loss::kWassersteinGp || o.d_norm.value_or(o.norm) != Norm::kBatch) return {};
  return {
      "critic  has batch norm, by which pictures share the gradient penalty that is meant for each "
      "of them (Gulrajani et al. 2017, sec. 4): --set dcgan.d_norm=none, as preset wgan-gp has it"};
}

}  // namespace

const RecipeFacts& facts() {
  static const RecipeFacts record = {
      .name = "dcgan",
      .title = "DCGAN",
      .citation =
          "A. Radford, L. Metz, S. Chintala: Unsupervised Representation Learning with Deep "
          "Convolutional Generative Adversarial Networks. ICLR 2016, arXiv:1511.06434",
      .add_keys = [](Schema& schema) { add_keys<Options>(schema); },
      .check_resolution = check_resolution,
      .complete = complete,
      .together = together,
      .batch_statistics = true,
      .equilibrium = equilibrium,
      .python = {.parts = {"base", "dcgan", "command"}, .normalises_z = false},
      .bench = {.place = 3,
                .about = "DCGAN, 64 pixels, batch 128",
                .preset = "dcgan",
                .set = words(
                    "data.resolution=64 train.batch=128 dcgan.channels=512 dcgan.d_channels=64"),
                .scripts = {pytorch_script("contiguous"), pytorch_script("channels-last")}},
      .bench_ddp = {.about = "DCGAN, 64 pixels",
                    .preset = "dcgan",
                    .set = words("data.resolution=64 dcgan.channels=512 dcgan.d_channels=64"),
                    .batch = 16,
                    .peer = {"--channels", "512", "--d-channels", "64"}},
      .tiny_run = {"--preset=dcgan-tiny", "--set=dcgan.channels=16", "--set=dcgan.d_channels=8"},
  };
  return record;
}

}  // namespace gantrain::dcgan
