// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/value.h"
#include "gan/schedule.h"
#include "launch/options.h"
#include "util/field.h"

// What the verbs that draw are asked for: the thin program makes it of the command line, whose
// options are the members with a help text (command/options.h). No torch.

namespace gantrain {

// Seeds as a command line has them, "0-1000000,85", in that order; no larger than the text.
class SeedList {
 public:
  SeedList() = default;

  // Adds first, first + 1, ..., last.
  void add(int64_t first, int64_t last);

  bool empty() const { return ranges_.empty(); }
  int64_t size() const { return ranges_.empty() ? 0 : ranges_.back().end; }
  int64_t operator[](int64_t index) const;  // index: 0 to size() - 1
  std::vector<int64_t> numbers() const;     // all of them
  std::string text() const;                 // "0-1000000,85"

 private:
  struct Range {
    int64_t first;
    int64_t last;
    int64_t end;  // how many seeds there are up to the end of this range
  };
  std::vector<Range> ranges_;
};

// In messages it is its text.
template <>
struct Value<SeedList> {
  static std::string type() { return "seeds (0-63,85)"; }
  static std::optional<SeedList> from_text(std::string_view text);
  static Json to_json(const SeedList& seeds) { return seeds.text(); }
};

// Read numbers as command lines have them; `flag` is for messages. All throw UserError(kUsage).

// "0-3,7" -> 0 1 2 3 7, in that order, each from 0 to 2^32 - 1 as numpy's RandomState takes it.
SeedList parse_seeds(const std::string& flag, const std::string& text);
inline void parse_said(const std::string& flag, const std::string& text, SeedList& seeds) {
  seeds = parse_seeds(flag, text);
}

// `generate --mix ROWS:COLUMNS:LAYERS`: seeds, seeds, and the layers that come from the columns.
struct Mix {
  std::vector<int64_t> rows;
  std::vector<int64_t> columns;
  std::vector<int64_t> layers;
};

template <class Field>
void fields(Mix& o, Field&& field) {
  field("rows", o.rows);
  field("columns", o.columns);
  field("layers", o.layers);
}

Mix parse_mix(const std::string& text);
inline void parse_said(const std::string&, const std::string& text, Mix& mix) {
  mix = parse_mix(text);
}

// `interpolate --grid 4x2`: tracks side by side.
struct GridShape {
  int64_t columns = 1;
  int64_t rows = 1;
};

template <class Field>
void fields(GridShape& o, Field&& field) {
  field("columns", o.columns);
  field("rows", o.rows);
}

GridShape parse_grid(const std::string& text);

// `--layers 4-7`: layers of a style-based generator, from 0 on, in rising order; none: all.
struct LayerList {
  std::vector<int64_t> numbers;
};

template <class Field>
void fields(LayerList& o, Field&& field) {
  field("numbers", o.numbers);
}

LayerList parse_layers(const std::string& flag, const std::string& text);
std::string text_of(const LayerList& layers);  // "0-3,7"
inline void parse_said(const std::string& flag, const std::string& text, LayerList& layers) {
  layers = parse_layers(flag, text);
}

// `--direction 3:2.5@4-7`: a direction, how far pictures go along it, and the layers whose w it
// moves.
struct DirectionUse {
  std::string text;  // as it was said
  int64_t number = 0;
  std::vector<double> strengths;  // one, or those that a walk passes at even distances
  LayerList layers;               // none: those that the file of directions says
};

template <class Field>
void fields(DirectionUse& o, Field&& field) {
  field("text", o.text);
  field("number", o.number);
  field("strengths", o.strengths);
  field("layers", o.layers);
}

// `walk`: several strengths with colons between are allowed, 3:-2:2.
DirectionUse parse_direction(const std::string& text, bool walk);

// What is added to w. Either both are given or none.
struct DirectionRequest {
  std::string file;  // .npz
  std::vector<DirectionUse> uses;
};

// How generators move pictures: turned counter-clockwise about their middle, then moved. Each
// number has one value, or those that a walk passes at even distances, in straight lines.
struct PictureMove {
  std::vector<double> degrees = {0};
  std::vector<double> right = {0}, down = {0};  // in widths of the picture
};

template <class Field>
void fields(PictureMove& o, Field&& field) {
  field("degrees", o.degrees);
  field("right", o.right);
  field("down", o.down);
}

inline constexpr const char* kModelHelp = "model file or run folder";
inline constexpr const char* kDirectionsHelp =
    "style-based models: .npz of directions that gantrain edit found";

// Which generator draws, and how. What is not given is left to the model.
struct ModelRequest {
  std::string model;     // a model file or a run folder
  std::string argument;  // the same, said without a flag; "" once `model` has it
  DeviceKind device = DeviceKind::kAuto;
  bool cuda = false;    // what that led to: on the first GPU; else on the CPU
  std::string classes;  // what --class was given (gan/class_table.h), or ""
  std::string label;    // what --label was given: numbers by name, or a file; or ""
  std::optional<double> trunc;
  std::optional<int64_t> trunc_cutoff;  // layers that `trunc` holds for; only given with it
  std::optional<NoiseMode> noise_mode;
  std::optional<int64_t> level;  // pixels of a progressive model's stage
  std::optional<double> alpha;   // weight of that stage's newest layers, in [0, 1]
  PictureMove move;
  DirectionRequest edits;
  std::string channels = "auto";  // that grids, sheets and films show
  int64_t depth = 8;              // bits of the model's pictures, once it is loaded
};

template <class Field>
void fields(ModelRequest& o, Field&& field) {
  field("model", o.model, said("--model,--network"), kModelHelp);
  field("class",
        o.classes,
        "conditional models: names, numbers, ranges or all: circle,3-5; where all names are whole "
        "numbers, these are meant (all; of very many the first)");
  field("label",
        o.label,
        "models whose labels are vectors: red=1,size=0.3 (others as usual), or a .csv or .npy file "
        "with a row for all pictures or one a picture (default: labels of real pictures)");
  field("trunc",
        o.trunc,
        said("--trunc,--psi"),
        between(-1e6, 1e6, "a number, usually 0 to 1"),
        "style-based models: truncation psi; 1 none, 0.7 usual, 0 the mean picture");
  field("trunc_cutoff",
        o.trunc_cutoff,
        between(0, 1e6, "a number of layers from 0 on"),
        "layers that --trunc holds for (all)");
  field("noise_mode", o.noise_mode, "models with noise inputs: const (default), random, none");
  field("level",
        o.level,
        between(1, 1e6, "pixels of a stage, like 32"),
        "progressive models: pixels of the stage to draw");
  field("alpha",
        o.alpha,
        between(0, 1, "0 to 1"),
        "weight of that stage's newest layers, 0 to 1 (1)");
  field("device", o.device, "auto, cpu or cuda");
  field("cuda", o.cuda);
  field("direction_uses", o.edits.uses);
  field("depth", o.depth);
  fields(o.move, field);
}

// Of the verbs that make pictures of several.
template <class Field>
void shown_fields(ModelRequest& o, Field&& field) {
  field("channels",
        o.channels,
        "what grids, sheets and films show, one channel as grey, two or three as red, green and "
        "blue: 0,3,5 (auto: all of up to 4, else the first three)");
}

// The model as an argument, of the verbs that take it without a flag, too.
template <class Field>
void model_fields(ModelRequest& o, Field&& field) {
  field("argument", o.argument, said("MODEL"), kModelHelp);
  fields(o, field);
}

enum class PictureFormat { kPng, kNpy, kStack };
constexpr std::array<std::string_view, 3> names(PictureFormat) { return {"png", "npy", "stack"}; }

// One picture for each latent. Exactly one of seeds, z, w and mix is given; an outdir, a grid or
// both are.
struct GenerateRequest {
  ModelRequest how;
  SeedList seeds;
  std::string z;           // .npy or .npz of latents [N, z_dim], or ""
  std::string w;           // .npy or .npz of w [N, num_ws, w_dim] or [N, w_dim], or ""
  std::optional<Mix> mix;  // of two seeds for each picture
  std::string outdir;      // folder of one file for each picture, or ""
  PictureFormat format = PictureFormat::kPng;  // of these files
  std::string grid;                            // PNG of all pictures, or ""
  std::vector<std::string> direction;          // how.edits.uses as they were said
  std::string rotate, translate;               // how.move as it was said
};

template <class Field>
void fields(GenerateRequest& o, Field&& field) {
  field("seeds", o.seeds, said("--seeds,--seed"), "numbers and ranges: 0-63,85 (default 0-15)");
  field("z", o.z, "latents instead of seeds: .npy, [N, z_dim] float32, or .npz with z");
  field("w",
        o.w,
        "style-based models: latents of layers, .npy, [N, num_ws, w_dim] or [N, w_dim], or "
        "projected_w.npz with w");
  field("mix",
        o.mix,
        "style-based models: ROWS:COLUMNS:LAYERS, as 85,100:55-60:0-6; each row's seed "
        "with these layers from each column's");
  field("outdir", o.outdir, "folder for one file a picture: seed0007.png");
  field("grid", o.grid, said("-o,--grid"), "one PNG with all pictures");
  field(
      "format",
      o.format,
      "png: of the data's 8 or 16 bits, of more than 4 channels a grey one each: seed0007.c0.png; "
      "stack: the same numbers as one .npy [H, W, C]; npy: float32 [C, H, W], the network's own "
      "output");
  model_fields(o.how, field);
  field("directions", o.how.edits.file, kDirectionsHelp);
  field("direction",
        o.direction,
        Said{.value = "K:STRENGTH[@A-B]", .one_each = true},
        "moves w along direction K of that file, 3:2.5, in some layers alone, 3:2.5@4-7; may be "
        "given again");
  shown_fields(o.how, field);
  field("rotate", o.rotate, "StyleGAN3: degrees by which pictures are turned counter-clockwise");
  field("translate", o.translate, "StyleGAN3: RIGHT,DOWN, picture widths by which they are moved");
}

// Where the path between two latents runs: through z on great circles, or through w in straight
// lines; auto: through w where there is one.
enum class WalkSpace { kZ, kW, kAuto };
constexpr std::array<std::string_view, 3> names(WalkSpace) { return {"z", "w", "auto"}; }

// Paths through latents, side by side, as an animation. A file, an outdir or both are given.
struct InterpolateRequest {
  ModelRequest how;
  SeedList seeds;  // their number is a multiple of the tracks in the grid
  GridShape tracks;
  int64_t frames = 60;  // from one seed to the next
  bool loop = false;    // back to the first seed at the end
  WalkSpace space = WalkSpace::kAuto;
  double fps = 30;
  int64_t quality = 90;                // of WebP: 1 to 100, lossless at 100
  std::string file;                    // NAME.webp or NAME.mp4, or ""
  std::string outdir;                  // folder of one PNG for each frame, or ""
  std::string grid = "1x1";            // `tracks` as it was said
  std::vector<std::string> direction;  // how.edits.uses as they were said
  std::string rotate, translate;       // how.move as it was said
};

template <class Field>
void fields(InterpolateRequest& o, Field&& field) {
  field("seeds",
        o.seeds,
        said("--seeds,--seed"),
        "what the path goes through, numbers and ranges: 0-3,85 (default 0-3)");
  field(
      "frames", o.frames, between(1, 1e5, "1 to 100000"), "frames from one seed to the next (60)");
  field("loop", o.loop, "back to the first seed, to be played without an end");
  field("space",
        o.space,
        "z: on great circles; w: in straight lines, style-based models (default: w where "
        "the model has it)");
  field("grid",
        o.grid,
        "COLUMNSxROWS paths side by side, each through its share of the seeds, as many for each");
  fields(o.tracks, field);
  field("file", o.file, said("-o,--output"), "NAME.webp, or NAME.mp4 where ffmpeg is on PATH");
  field("outdir", o.outdir, "folder for one PNG a frame: frame0007.png");
  field("fps", o.fps, between(1, 240, "1 to 240"), "frames a second (30)");
  field("quality",
        o.quality,
        between(1, 100, "1 to 100 (lossless)"),
        "quality of WebP: 1 to 100, lossless at 100 (90)");
  model_fields(o.how, field);
  field("directions", o.how.edits.file, kDirectionsHelp);
  field("direction",
        o.direction,
        Said{.value = "K:STRENGTH[:STRENGTH...][@A-B]", .one_each = true},
        "moves w along direction K of that file, 3:2.5, in some layers alone, 3:2.5@4-7, or on a "
        "way through several strengths, 3:-2:2; may be given again");
  shown_fields(o.how, field);
  field("rotate",
        o.rotate,
        "StyleGAN3: degrees by which pictures are turned counter-clockwise; reached at the last "
        "frame, or a way through several: 0:90:-90");
  field("translate",
        o.translate,
        "StyleGAN3: RIGHT,DOWN, picture widths by which they are moved; reached at the last "
        "frame, or a way through several: 0,0:0.3,0:0.3,0.2");
}

// How directions in w are found.
enum class DirectionMethod { kSefa, kGanspace };
constexpr std::array<std::string_view, 2> names(DirectionMethod) { return {"sefa", "ganspace"}; }

// Directions in w, and sheets of them.
struct EditRequest {
  ModelRequest how;
  DirectionMethod method = DirectionMethod::kSefa;
  std::optional<int64_t> count;  // of directions; none: 10, or as many as w has numbers
  LayerList layers;              // that they are found for and move; none: all
  int64_t samples = 10'000;      // of w, for GANSpace
  SeedList seeds;                // of the sheets
  double strength = 3;           // of their last column
  int64_t columns = 7;           // of them
  std::string outdir;
  bool json = false;
};

template <class Field>
void fields(EditRequest& o, Field&& field) {
  field("method",
        o.method,
        "sefa: of the layers' style weights alone; ganspace: principal components of w (sefa)");
  field("count", o.count, between(1, 1e6, "1 or more"), "how many directions (10)");
  field("layers", o.layers, "layers that they are found for and move: 0-5 (all)");
  field("samples",
        o.samples,
        between(2, 1e8, "2 to 100000000"),
        "ganspace: how many seeds' w, from seed 0 on (10000)");
  field("seeds", o.seeds, said("--seeds,--seed"), "lines of the sheets: 0-3,85 (default 0-3)");
  field("strength",
        o.strength,
        between(1e-6, 1e6, "above 0, usually 1 to 10"),
        "the sheets go from minus this to this (3); 1 is a length of 1 in w with sefa, and a "
        "standard deviation with ganspace");
  field("columns", o.columns, between(2, 64, "2 to 64"), "pictures in a line of the sheets (7)");
  field("outdir",
        o.outdir,
        said("-o,--output,--outdir"),
        "folder for directions.npz, directions.json, direction00.png, ...");
  field("json", o.json, "one JSON line on standard output");
  model_fields(o.how, field);
}

// The real pictures nearest to each fake. Seeds or images are given.
struct NearestRequest {
  ModelRequest how;
  SeedList seeds;
  std::string images;           // folder, zip or picture of fakes instead of seeds, or ""
  std::string data;             // the reals; "": those that the run was trained on
  std::string detector;         // TorchScript file that makes features; "": a random network
  std::string detector_sha256;  // what it must be, or ""
  int64_t count = 3;            // nearest reals of each fake
  std::string sheet;            // PNG of all pairs, or ""
  bool json = false;
};

template <class Field>
void fields(NearestRequest& o, Field&& field) {
  field("seeds", o.seeds, said("--seeds,--seed"), "fakes of these seeds: 0-63,85 (default 0-15)");
  field("images", o.images, "fakes instead of seeds: a folder or zip of pictures");
  field("data", o.data, "the reals (default: those that the run was trained on)");
  field("detector",
        o.detector,
        "TorchScript file whose features are compared (default: a random network's): a program, so "
        "trust where it comes from");
  field("detector_sha256", o.detector_sha256, "the detector's SHA-256; another file is not run");
  field("count",
        o.count,
        said("--count,-k"),
        between(1, 100, "1 to 100"),
        "nearest reals of each fake (3)");
  field("sheet", o.sheet, said("-o,--sheet"), "PNG: fake, nearest by pixels, nearest by features");
  field("json", o.json, "one JSON line on standard output");
  model_fields(o.how, field);
  shown_fields(o.how, field);
}

// Which latents a projection looks for. w: one vector for all layers; w+: one for each; z: the
// generator's input; auto: w where the model has it.
enum class ProjectionSpace { kW, kWPlus, kZ, kAuto };
constexpr std::array<std::string_view, 4> names(ProjectionSpace) {
  return {"w", "w+", "z", "auto"};
}

// The latents whose pictures are nearest to given pictures.
struct ProjectRequest {
  ModelRequest how;
  std::vector<std::string> images;  // files
  ProjectionSpace space = ProjectionSpace::kAuto;
  int64_t steps = 500;
  int64_t seed = 303;    // of the noise that is added to w
  double lr = 0.1;       // Adam's, at its height
  int64_t starts = 0;    // optimised side by side in the first quarter; 0: by the pictures' size
  std::string detector;  // TorchScript file whose features count too, or ""
  std::string detector_sha256;  // what it must be, or ""
  std::string outdir;
  std::string clip;  // NAME.webp or NAME.mp4 of the way there, or ""
  bool json = false;
};

template <class Field>
void fields(ProjectRequest& o, Field&& field) {
  field("images", o.images, said("IMAGE"), "pictures of any form and size; they are fitted");
  field("space",
        o.space,
        "w: one vector for all layers (default where the model has it); w+: one for each; "
        "z: the generator's input");
  field("steps", o.steps, between(1, 1e6, "1 to 1000000"), "steps of Adam (500)");
  field("lr",
        o.lr,
        between(1e-9, 1e3, "above 0, usually 0.01 to 0.5"),
        "Adam's learning rate at its height (0.1)");
  field("starts",
        o.starts,
        between(1, 1024, "1 to 1024"),
        "latents tried side by side in the first quarter of the steps (4; 1 for large pictures)");
  field("seed",
        o.seed,
        between(0, 4294967295, "0 to 4294967295"),
        "seed of the noise that is added to the latents (303)");
  field("detector",
        o.detector,
        "TorchScript file whose features count beside the pixels, such as VGG16's: a program, so "
        "trust where it comes from");
  field("detector_sha256", o.detector_sha256, "the detector's SHA-256; another file is not run");
  field("outdir", o.outdir, "folder for NAME.npz, NAME-projected.png, ...");
  field("clip", o.clip, "NAME.webp, or NAME.mp4 where ffmpeg is on PATH");
  field("json", o.json, "one JSON line on standard output");
  fields(o.how, field);
  shown_fields(o.how, field);
}

}  // namespace gantrain
