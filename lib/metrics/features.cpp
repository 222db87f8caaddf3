// SPDX-License-Identifier: Apache-2.0
#include "metrics/features.h"

#include <optional>

#include "core/safetensors.h"
#include "core/torch.h"
#include "metrics/detector.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/log.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kBatch = 32;
constexpr const char* kFormat = "1";  // of the files in the folder

// Pictures [N, C, H, W] -> rows, in batches that fit memory.
using Look = at::Tensor (Detector::*)(const at::Tensor&);
at::Tensor look(Detector& detector, Look what, const at::Tensor& pictures) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& some : pictures.split(kBatch)) rows.push_back((detector.*what)(some));
  return at::cat(rows);
}

// Rows that some rank has filled in, on all ranks. A rank without pictures has no rows at all, and
// does not know how long they are.
at::Tensor gathered(at::Tensor rows, int64_t count, const SharedWork& work) {
  if (work.world() == 1) return rows;
  at::Tensor lengths = at::zeros({work.world()}, at::kLong);
  if (rows.defined()) lengths[work.rank()] = rows.size(1);
  sum_over_ranks_(work, lengths);
  if (!rows.defined()) rows = at::zeros({count, lengths.max().item<int64_t>()}, at::kFloat);
  sum_over_ranks_(work, rows);
  return rows;
}

void put(at::Tensor& rows, int64_t count, const Piece& piece, const at::Tensor& values) {
  if (!rows.defined()) rows = at::zeros({count, values.size(1)}, at::kFloat);
  rows.narrow(0, piece.first, piece.count).copy_(values);
}

// What a kept file holds, in words that are compared letter by letter when it is read.
std::string key_of(Pictures& pictures, const Detector& detector, const FeaturePlan& plan) {
  return fmt::format("format={} pictures={} count={} detector={} rows={}",
                     kFormat,
                     pictures.identity(),
                     plan.pictures,
                     detector.sha256(),
                     plan.rows ? "yes" : "no");
}

void check_shapes(const TensorFile& file, const FeaturePlan& plan, const std::string& name) {
  const auto sums = file.tensors.find("sums");
  bool good = sums != file.tensors.end() && sums->second.dim() == 2 &&
              sums->second.size(0) == sums->second.size(1) && sums->second.size(0) > 1 &&
              sums->second.scalar_type() == at::kDouble;
  if (plan.rows && good) {
    const auto rows = file.tensors.find("rows");
    good = rows != file.tensors.end() && rows->second.dim() == 2 &&
           rows->second.size(0) == plan.pictures &&
           rows->second.size(1) + 1 == sums->second.size(0) &&
           rows->second.scalar_type() == at::kFloat;
  }
  if (!good) fail(Exit::kInput, "{}: does not hold statistics of pictures", name);
}

std::optional<Features> read_kept(const fs::path& file,
                                  const std::string& key,
                                  const FeaturePlan& plan) {
  std::error_code error;
  if (!fs::exists(file, error)) return std::nullopt;
  try {
    const TensorFile kept = load_safetensors(file);
    const auto own = kept.metadata.find("key");
    if (own == kept.metadata.end() || own->second != key)
      fail(Exit::kInput, "{}: holds statistics of something else", file.string());
    check_shapes(kept, plan, file.string());
    return Features{FeatureSums(kept.tensors.at("sums")),
                    plan.rows ? kept.tensors.at("rows") : at::Tensor()};
  } catch (const UserError& e) {
    warn("{}; computed again", e.what());
    return std::nullopt;
  }
}

void keep(const fs::path& file, const std::string& key, const Features& features) {
  NamedTensors tensors = {{"sums", features.sums.to_tensor()}};
  if (features.rows.defined()) tensors.emplace_back("rows", features.rows);
  try {
    make_writable_folder(file.parent_path());
    save_safetensors(file, tensors, {{"key", key}});
  } catch (const UserError& e) {
    warn("statistics of the real pictures are not kept for the next time: {}", e.what());
  }
}

// Rank 0's features on all ranks.
Features shared(Features features, const FeaturePlan& plan, const SharedWork& work) {
  if (work.world() == 1) return features;
  features.sums.sum_(work);
  if (plan.rows) features.rows = gathered(features.rows, plan.pictures, work);
  return features;
}

}  // namespace

Features compute_features(Pictures& pictures,
                          Detector& detector,
                          const FeaturePlan& plan,
                          const SharedWork& work) {
  Features features;
  share(work, {plan.what, plan.pictures, kPicturesAtOnce}, [&](const Piece& piece) {
    const at::Tensor rows = look(detector, &Detector::features, pictures.get(piece.numbers()));
    features.sums.add(rows);
    if (plan.rows) put(features.rows, plan.pictures, piece, rows);
  });
  features.sums.sum_(work);
  if (plan.rows) features.rows = gathered(features.rows, plan.pictures, work);
  return features;
}

at::Tensor compute_probabilities(Pictures& pictures,
                                 Detector& detector,
                                 int64_t count,
                                 const SharedWork& work) {
  at::Tensor all;
  share(work, {"generated pictures", count, kPicturesAtOnce}, [&](const Piece& piece) {
    put(all, count, piece, look(detector, &Detector::probabilities, pictures.get(piece.numbers())));
  });
  return gathered(all, count, work);
}

Features cached_features(Pictures& pictures,
                         Detector& detector,
                         const FeaturePlan& plan,
                         const fs::path& folder,
                         const SharedWork& work) {
  const bool first = work.rank() == 0;
  std::string key;
  fs::path file;
  std::optional<Features> kept;
  if (first && !folder.empty() && !pictures.identity().empty()) {
    key = key_of(pictures, detector, plan);
    Digest digest;
    digest.update(key.data(), key.size());
    file = folder / fmt::format("reals-{}.safetensors", digest.hex());
    kept = read_kept(file, key, plan);
  }
  if (text_of_rank_0(work, kept ? "kept" : "none") == "kept")
    return shared(kept.value_or(Features{}), plan, work);
  Features features = compute_features(pictures, detector, plan, work);
  if (first && !file.empty()) keep(file, key, features);
  return features;
}

}  // namespace gantrain
