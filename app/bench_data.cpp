// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <zip.h>

#include <filesystem>

#include "bench_common.h"
#include "bench_numbers.h"
#include "bench_peer.h"
#include "bench_scratch.h"
#include "core/torch.h"
#include "data/loader.h"
#include "image/image.h"
#include "trainer_verbs.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/time.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

using Files = std::vector<std::pair<std::string, std::string>>;  // name and content

// Pictures of the built-in shapes with grain, so that they compress about as photographs do.
Files make_files(const BenchDataRequest& request, const std::string& format) {
  constexpr int kGrain = 12;  // the largest difference, of 255
  DataOptions options;
  options.resolution = square_of(request.size);
  const auto shapes = open_dataset(options);
  Files files;
  for (int64_t i = 0; i < request.pictures; ++i) {
    Image image = shapes->load(i);
    uint64_t state = hash64(std::to_string(i));
    for (uint8_t& pixel : image.pixels) {
      state = state * 6364136223846793005U + 1442695040888963407U;  // Knuth's MMIX generator
      const int grain = static_cast<int>((state >> 40) % (2 * kGrain + 1)) - kGrain;
      pixel = static_cast<uint8_t>(std::clamp(int{pixel} + grain, 0, 255));
    }
    files.emplace_back(fmt::format("{:06}.{}", i, format),
                       format == "png" ? encode_png(image) : encode_jpeg(image));
  }
  return files;
}

void write_folder(const fs::path& folder, const Files& files) {
  make_writable_folder(folder);
  for (const auto& [name, content] : files) write_file(folder / name, content);
}

// A zip whose files are stored, not compressed.
void write_zip(const fs::path& path, const Files& files) {
  int code = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (archive == nullptr) fail(Exit::kDisk, "cannot write {}", path.string());
  for (const auto& [name, content] : files) {
    zip_source_t* source = zip_source_buffer(archive, content.data(), content.size(), 0);
    const zip_int64_t index = zip_file_add(archive, name.c_str(), source, ZIP_FL_OVERWRITE);
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  if (zip_close(archive) != 0) fail(Exit::kDisk, "cannot write {}", path.string());
}

// Pictures per second of the loader with one thread, without a cache of decoded pictures.
double loader_rate(const fs::path& path, const BenchDataRequest& request) {
  constexpr int64_t kBatch = 16;
  DataOptions options;
  options.path = path.string();
  options.resolution = square_of(request.resolution);
  options.workers = 1;
  options.verify = Verify::kNone;
  options.cache_mb = 0;
  const auto dataset = open_dataset(options);
  Loader loader(dataset, options, /*seed=*/0, RankInfo{}, /*first_image=*/0, kBatch);
  loader.next();  // the thread has begun, and works up to 4 batches ahead
  const int64_t batches = std::max<int64_t>(8, request.pictures / kBatch);
  for (int64_t i = 0; i < 4; ++i) loader.next();
  const double start = monotonic_seconds();
  for (int64_t i = 0; i < batches; ++i) loader.next();
  return static_cast<double>(batches * kBatch) / (monotonic_seconds() - start);
}

// Pictures per second of decoding the same bytes in memory, whole.
double decoder_rate(const Files& files) {
  const double start = monotonic_seconds();
  for (const auto& [name, content] : files) decode_image(content, name);
  return static_cast<double>(files.size()) / (monotonic_seconds() - start);
}

double peer_rate(const Peer& peer, const fs::path& path, const BenchDataRequest& request) {
  const Json answer =
      run_peer(peer, {path.string(), "--resolution", std::to_string(request.resolution)});
  return answer.at("pictures").get<double>() / answer.at("seconds").get<double>();
}

Json measure(const std::string& format, const BenchDataRequest& request, const Peer* peer) {
  const ScratchFolder scratch;
  const Files files = make_files(request, format);
  const fs::path folder = scratch.path() / format, zip = scratch.path() / (format + ".zip");
  write_folder(folder, files);
  write_zip(zip, files);
  double bytes = 0;
  for (const auto& [name, content] : files) bytes += static_cast<double>(content.size());
  std::vector<double> of_folder, of_zip, decoder, theirs;
  std::vector<std::function<void()>> turns = {
      [&] {
        of_folder.push_back(
            in_child(1, [&](const Rendezvous&) { return Json(loader_rate(folder, request)); }));
      },
      [&] {
        of_zip.push_back(
            in_child(1, [&](const Rendezvous&) { return Json(loader_rate(zip, request)); }));
      },
      [&] { decoder.push_back(decoder_rate(files)); }};
  if (peer != nullptr)
    turns.emplace_back([&] { theirs.push_back(peer_rate(*peer, zip, request)); });
  in_turns(request.rounds, turns);
  Json row = {{"format", format},
              {"mean_bytes", bytes / static_cast<double>(files.size())},
              {"folder", spread_of(of_folder)},
              {"zip", spread_of(of_zip)},
              {"floor", spread_of(decoder)}};
  row["folder"]["time_of_floor"] = ratio_of(quotients(decoder, of_folder));
  row["zip"]["time_of_floor"] = ratio_of(quotients(decoder, of_zip));
  if (peer != nullptr) {
    row["peer"] = spread_of(theirs);
    row["zip"]["times_the_peer"] = ratio_of(quotients(of_zip, theirs));
  }
  return row;
}

void print_line(const char* name, const Json& spread, const std::string& remark) {
  fmt::print("  {:<28} {:>8.0f} pictures/s {:>8.0f} .. {:<8.0f} {}\n",
             name,
             spread.at("median").get<double>(),
             spread.at("quartiles")[0].get<double>(),
             spread.at("quartiles")[1].get<double>(),
             remark);
}

void print_format(const Json& row) {
  fmt::print("\n{}, {:.0f} kB a picture\n",
             row.at("format").get<std::string>(),
             1e-3 * row.at("mean_bytes").get<double>());
  const auto remark = [](const Json& ours) {
    std::string text = ratio_text(ours.at("time_of_floor")) + " x the decoder's time";
    if (ours.contains("times_the_peer"))
      text += ", " + ratio_text(ours.at("times_the_peer")) + " x Pillow";
    return text;
  };
  print_line("loader, folder", row.at("folder"), remark(row.at("folder")));
  print_line("loader, zip", row.at("zip"), remark(row.at("zip")));
  print_line("floor: decoder alone", row.at("floor"), "");
  if (row.contains("peer")) print_line("Pillow and zipfile", row.at("peer"), "");
}

}  // namespace

int bench_data(const BenchDataRequest& request) {
  const Peer peer{request.python, request.scripts + "/pictures.py", {}};
  const std::string reason =
      request.python.empty() ? "--python is empty" : why_not_import(peer, "PIL, numpy, zipfile");
  Json result = {{"bench", "data"}, {"load", {load_average()}}, {"formats", Json::array()}};
  fmt::print(
      "{} pictures of {} pixels, loaded as {}; pictures per second of one core; load {:.1f}\n",
      request.pictures,
      request.size,
      request.resolution,
      load_average());
  for (const char* format : {"jpg", "png"}) {
    result["formats"].push_back(measure(format, request, reason.empty() ? &peer : nullptr));
    print_format(result["formats"].back());
    std::fflush(stdout);
  }
  if (!reason.empty()) {
    fmt::print("\nnot compared with Pillow: {}\n", reason);
    result["peer_skipped"] = reason;
  }
  result["load"].push_back(load_average());
  if (request.json) fmt::print("{}\n", result.dump());
  return 0;
}

}  // namespace gantrain
