// SPDX-License-Identifier: Apache-2.0
#include "train/sample_grids.h"

#include <algorithm>
#include <map>

#include "core/tensors.h"
#include "core/torch.h"
#include "data/load_planes.h"
#include "gan/full_size.h"
#include "page/class_rows.h"
#include "report/grid.h"

namespace gantrain {

std::vector<int64_t> grid_labels(const SampleOptions& samples, int64_t classes) {
  if (classes == 0) return {};
  const int64_t cells = samples.rows * samples.columns;
  std::vector<int64_t> labels;
  for (int64_t cell = 0; cell < cells; ++cell) {
    labels.push_back(class_of_cell(cell, {samples.rows, samples.columns}, classes));
  }
  return labels;
}

SampleGrids::SampleGrids(Generator& generator,
                         std::shared_ptr<const Dataset> dataset,
                         const SampleOptions& samples,
                         uint64_t seed)
    : generator_(generator), dataset_(std::move(dataset)), samples_(samples), seed_(seed) {}

Image SampleGrids::fake_grid() {
  constexpr int64_t kAtATime = 64;  // pictures generated together
  const Stream stream(seed_, "grid");
  const std::vector<int64_t> labels = grid_labels(samples_, generator_.classes());
  std::vector<at::Tensor> all;
  for (int64_t first = 0; first < cells(); first += kAtATime) {
    const int64_t n = std::min(kAtATime, cells() - first);
    const at::Tensor z = normal(stream, {first, 1, n}, {generator_.z_dim()});
    at::Tensor label;
    if (!labels.empty()) label = torch::tensor(labels).narrow(0, first, n);
    all.push_back(full_size(generator_, to_bytes(generator_.images(z, label, synthesis_options_))));
  }
  return tile(torch::cat(all), samples_.columns);
}

// The index of each cell's picture; -1 where a class has none.
std::vector<int64_t> SampleGrids::real_pictures() const {
  const std::vector<int64_t> order = Stream(seed_, "reals").permutation(dataset_->size());
  const std::vector<int64_t> labels = grid_labels(samples_, generator_.classes());
  std::vector<int64_t> pictures;
  if (labels.empty()) {
    for (int64_t i = 0; i < cells(); ++i)
      pictures.push_back(order[static_cast<size_t>(i % dataset_->size())]);
    return pictures;
  }
  std::map<int64_t, std::vector<int64_t>> of_class;
  for (const int64_t index : order) of_class[dataset_->label(index)].push_back(index);
  std::map<int64_t, size_t> shown;
  for (const int64_t label : labels) {
    const std::vector<int64_t>& own = of_class[label];
    pictures.push_back(own.empty() ? -1 : own[shown[label]++ % own.size()]);
  }
  return pictures;
}

Image SampleGrids::real_grid() const {
  const std::vector<int64_t> indices = real_pictures();
  std::vector<WantedPicture> wanted;
  for (const int64_t index : indices) wanted.push_back({std::max<int64_t>(index, 0)});
  const at::Tensor all = load_planes(*dataset_, wanted);
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0) all[static_cast<int64_t>(i)].zero_();
  }
  return tile(all, samples_.columns);
}

void SampleGrids::write(Reporter& reporter,
                        const std::string& file,
                        const Schedule& schedule,
                        const Counters& counters) {
  if (!schedule.empty()) draw(options_at(schedule, counters.stage, counters.images_seen));
  const Image grid = fake_grid();
  reporter.grid(file, "Samples/fakes", grid, counters.images_seen);
  reporter.grid("latest.png", "Samples/latest", grid, counters.images_seen);
}

}  // namespace gantrain
