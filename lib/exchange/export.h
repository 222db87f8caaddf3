// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "draw/directions.h"
#include "exchange/import.h"

namespace gantrain {

// The parts of the Python program that draws with a generator: "base.py", "growing.py" (layers that
// PGGAN and StyleGAN 1 share), "style.py" (the mapping of StyleGAN2 and 3), the recipe's and
// "command.py". Together, in this order, they are one file that needs only torch.
const EmbeddedFiles& python_files();

// Returns the whole program of these parts (RecipeFacts::python); "" where there are none.
std::string python_program(const std::vector<std::string>& parts);

// A model file that is exported.
struct ExportedModel {
  std::filesystem::path file;
  LoadedModel model;
  NamedTensors tensors;  // the generator's own
  bool vectors = false;  // it is given labels as vectors, not classes

  // A label to draw with, the `number`-th: [1, L] of a real picture as far as the model knows some,
  // int64 [1] of a model that is given classes, undefined of an unconditional one.
  at::Tensor label(int64_t number) const;
};

// Reads a model file. A model that was trained with labels that are vectors is given such, and with
// `vectors` any other conditional one, too. Throws UserError(kInput), and UserError(kUsage) where
// it cannot take them.
ExportedModel load_exported(const std::filesystem::path& file,
                            const RecipeTable& recipes,
                            bool vectors = false);

// What the numbers of a generator are, and how they become pictures of so many bits.
std::string about_pictures(int64_t depth);

// What of a generator becomes an ONNX graph: all of it, or, of style-based generators, what comes
// before and after w.
enum class OnnxPart { kWhole, kMapping, kSynthesis };

// Returns the bytes of an ONNX file, opset 17, of which the batch may have any size:
// - inputs z [N, z_dim], class int64 [N] of a conditional model, or label [N, L] where it is given
//   vectors, psi [1] of a style-based one, noise [1], 1 or 0, of one with noise inputs; output
//   images [N, C, H, W];
// - the mapping: z, class or label, and psi as above; output w [N, num_ws, w_dim], truncated;
// - the synthesis: w and noise; output images.
// `half`: pictures are computed in float16. Throws UserError(kInput).
std::string onnx_of(const ExportedModel& exported, OnnxPart part, bool half);

// Returns what the inputs of the whole graph are, how seeds become latents, and a few seeds with
// values of their pictures, as self_test_of() has them: the content of NAME.onnx.json.
Json onnx_description(ExportedModel& exported, bool half);

// The page of web_page(): web.html, in which names between @ are replaced.
const EmbeddedFiles& web_files();

// Where the page gets onnxruntime-web from unless it is told: its files ort.wasm.min.js and
// ort-wasm-simd-threaded.mjs and .wasm.
inline constexpr const char* kWebRuntime =
    "https://cdn.jsdelivr.net/npm/onnxruntime-web@1.30.0/dist/";

// Returns one HTML page that draws with the generator, whose graphs lie in it. `runtime` ends in
// "/": where onnxruntime-web's files are, an address or a path from the page. The first ten of
// `directions` get sliders. Throws UserError(kInput), also where these are not of such a model.
std::string web_page(const ExportedModel& exported,
                     bool half,
                     const std::string& runtime,
                     const std::optional<Directions>& directions = {});

// Returns the content of config.json: all that the Python program, python_program(), must
// know to build the generator and to draw with it.
Json config_of(const ExportedModel& exported);

// Returns the content of self_test.json: a few seeds with values of their pictures.
Json self_test_of(ExportedModel& exported);

// Returns the lines with results of a run's metric-*.jsonl, file by file in the order of their
// names. A line that is half written is left out.
std::vector<std::vector<Json>> metric_rows(const std::filesystem::path& folder);

// Returns the model card README.md: what the model is, what it was trained on as its run says it,
// numbers, how to use it. `config` is config_of(). The licence is left for the user to fill in. For
// the Hugging Face Hub (`hub`) its metadata also hold the numbers, as a model-index, and no licence
// that is empty. Throws UserError(kInput) where the run's config.json is broken.
std::string card_of(const ExportedModel& exported, const Json& config, bool hub);

}  // namespace gantrain
