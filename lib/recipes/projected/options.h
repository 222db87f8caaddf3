// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/options.h"
#include "gan/recipe_facts.h"

namespace gantrain::projected {

// Adam as in the official training; D's is corrected as if D were regularised at every 16th
// iteration, which nothing does (Player::step_share).
inline PlayerOptions player() {
  PlayerOptions o;
  o.adam = {2e-4, 0, 0.99, 1e-8};
  return o;
}
constexpr int64_t kDInterval = 16;

// What happens to the statistics of the frozen feature network before training.
enum class DryPass { kNone, kOfficial };
constexpr std::array<std::string_view, 2> names(DryPass) { return {"none", "official"}; }

// Options of projected GANs (Sauer, Chitta, Mueller & Geiger, NeurIPS 2021, arXiv:2111.01007) with
// FastGAN's generator (Liu, Zhu, Song & Elgammal, ICLR 2021, arXiv:2101.04775). The defaults are
// those of the authors' training.
struct Options {
  bool conditional = false;
  int64_t z_dim = 256;
  int64_t ngf = 128;
  bool lite = false;
  DryPass dry_pass = DryPass::kNone;
  std::string taps = "auto";
  std::string feature_widths = "auto";
  int64_t input = 224;
  int64_t cout = 64;
  std::optional<int64_t> ndf;
  bool separable = false;
  int64_t embedding = 128;
  int64_t cmap_dim = 64;
  double blur_init_sigma = 0;
  Kimg blur_fade{0};
  AugmentChoice<AugmentMode> augmentation = {.mode = AugmentMode::kDiff, .policy = {}};
  AdaOptions ada;
  AugmentOptions augment;
  PlayerOptions G = player();
  PlayerOptions D = player();
};

template <class Field>
void fields(Options& o, Field&& field) {
  field("projected.conditional",
        o.conditional,
        "with data.cond=auto: use the labels that the data has");
  field("projected.z_dim", o.z_dim, between(1, 65536), "length of z");
  field("projected.ngf",
        o.ngf,
        between(1, 4096),
        "G's feature maps at 128 pixels; twice as many at 64 and 32, up to 16 times at 4");
  field("projected.lite",
        o.lite,
        "FastGAN's lite generator: one convolution a resolution, no noise; for small data");
  field("projected.dry_pass",
        o.dry_pass,
        "official: move the feature network's statistics as the authors' code does unasked, by a "
        "pass over zeros; none: leave them as they were trained");
  field("projected.taps",
        o.taps,
        "four feature maps of the TorchScript network of --features, the finest first: names of "
        "sub-modules (layer1,layer2,layer3,layer4), or keys or places of what forward() returns; "
        "auto: the four that it returns");
  field("projected.feature_widths",
        o.feature_widths,
        "feature maps of random features: stem, then seven stages, as 8,4,8,8,12,16,16,24; auto: "
        "EfficientNet-Lite0's");
  field("projected.input",
        o.input,
        between(64, 1024),
        "smaller pictures are enlarged to this size for D, a multiple of 32: 224 as in the paper; "
        "64 takes a CPU a tenth of the time");
  field("projected.cout",
        o.cout,
        between(1, 4096),
        "feature maps of the random projections at the finest scale, up to four times as many at "
        "the others");
  field("projected.ndf",
        o.ndf,
        between(1, 4096),
        "feature maps inside D's heads; auto: 64, doubled at each halving, up to 512");
  field("projected.separable", o.separable, "separable convolutions in D's heads");
  field("projected.embedding", o.embedding, between(1, 65536), "length of D's embedded class");
  field("projected.cmap_dim",
        o.cmap_dim,
        between(1, 65536),
        "feature maps by which D compares a picture with its class");
  field("projected.blur_init_sigma",
        o.blur_init_sigma,
        between(0, 100),
        "pixels by which D's pictures are blurred when a run begins; 0: they are not");
  field("projected.blur_fade_kimg",
        o.blur_fade,
        between(0, 1e9),
        "kimg over which this blur goes to 0; up to 1: there is no blur");
  field("augment", o.augmentation, "augmentation of what D sees");
  field("ada", o.ada, "adaptive discriminator augmentation");
  field("augment", o.augment, "its transforms");
  field("G", o.G, "generator");
  field("D", o.D, "discriminator");
}

// The file of the feature network or of its weights, --features; empty: they are random.
std::string features_file(const Config& config);

// Reads projected.taps: four names, or none for "auto". Throws UserError(kUsage) that names the
// key.
std::vector<std::string> feature_taps(const Options& options);

// Reads projected.feature_widths: eight numbers, or none for "auto". Throws UserError(kUsage) that
// names the key.
std::vector<int64_t> feature_widths(const Options& options);

// The facts of this recipe. Its networks can be built for squares of 16 to 1024 pixels, powers of
// two. Its automatic values are the generator's average and the augmentation.
const RecipeFacts& facts();

}  // namespace gantrain::projected
