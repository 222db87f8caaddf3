// SPDX-License-Identifier: Apache-2.0
#include <zip.h>

#include <atomic>
#include <cstring>
#include <filesystem>

#include "bench/common.h"
#include "bench/requests.h"
#include "bench/worlds.h"
#include "config/config.h"
#include "core/random.h"
#include "core/torch.h"
#include "data/load/loader.h"
#include "data/options.h"
#include "image/image.h"
#include "train/options.h"
#include "train/save/checkpoint.h"
#include "train/step/training_step.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/sample.h"
#include "util/system.h"

namespace gantrain {

namespace {

constexpr const char* kPillow = "pictures.py";  // the peer's script

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
double rate_in_child(const fs::path& path, const BenchDataRequest& request) {
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
  return static_cast<double>(batches * kBatch) / seconds_of([&] {
           for (int64_t i = 0; i < batches; ++i) loader.next();
         });
}

double loader_rate(const fs::path& path, const BenchDataRequest& request) {
  return in_child(1, [&](const Rendezvous&) { return Json(rate_in_child(path, request)); });
}

// Pictures per second of decoding the same bytes in memory, whole.
double decoder_rate(const Files& files) {
  return static_cast<double>(files.size()) / seconds_of([&] {
           for (const auto& [name, content] : files) decode_image(content, name);
         });
}

double peer_rate(const fs::path& path, const BenchDataRequest& request) {
  const Json answer =
      run_peer(request.peers,
               {kPillow, {path.string(), "--resolution", std::to_string(request.resolution)}});
  return answer.at("pictures").get<double>() / answer.at("seconds").get<double>();
}

Json measure_format(const std::string& format, const BenchDataRequest& request, bool peer) {
  const ScratchFolder scratch;
  const Files files = make_files(request, format);
  const fs::path folder = scratch.path() / format, zip = scratch.path() / (format + ".zip");
  write_folder(folder, files);
  write_zip(zip, files);
  double bytes = 0;
  for (const auto& [name, content] : files) bytes += static_cast<double>(content.size());
  std::vector<double> of_folder, of_zip, decoder, theirs;
  std::vector<std::function<void()>> turns = {
      [&] { of_folder.push_back(loader_rate(folder, request)); },
      [&] { of_zip.push_back(loader_rate(zip, request)); },
      [&] { decoder.push_back(decoder_rate(files)); }};
  if (peer) turns.emplace_back([&] { theirs.push_back(peer_rate(zip, request)); });
  in_turns(request.rounds, turns);
  Json row = {{"format", format},
              {"mean_bytes", bytes / static_cast<double>(files.size())},
              {"folder", spread_of(of_folder)},
              {"zip", spread_of(of_zip)},
              {"floor", spread_of(decoder)}};
  row["folder"]["time_of_floor"] = ratio_of(quotients(decoder, of_folder));
  row["zip"]["time_of_floor"] = ratio_of(quotients(decoder, of_zip));
  if (peer) {
    row["peer"] = spread_of(theirs);
    row["zip"]["times_the_peer"] = ratio_of(quotients(of_zip, theirs));
  }
  return row;
}

void print_rate(const char* name, const Json& spread, const std::string& remark) {
  fmt::print("  {:<28} {:>8.0f} pictures/s {:>8.0f} .. {:<8.0f} {}\n",
             name,
             median_of(spread),
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
  print_rate("loader, folder", row.at("folder"), remark(row.at("folder")));
  print_rate("loader, zip", row.at("zip"), remark(row.at("zip")));
  print_rate("floor: decoder alone", row.at("floor"), "");
  if (row.contains("peer")) print_rate("Pillow and zipfile", row.at("peer"), "");
}

struct PauseBench {
  TrainingStep& step;
  const Config& config;
  int64_t rounds = 5;
  std::filesystem::path folder;  // on the disk to be measured
};

// Warm memory for the elements of all tensors of a save, each once.
class PlainCopy {
 public:
  explicit PlainCopy(const CheckpointWriter::Save& save) {
    std::map<const void*, size_t> seen;
    const auto add = [&](const at::Tensor& tensor) {
      if (tensor.nbytes() > 0) seen.emplace(tensor.const_data_ptr(), tensor.nbytes());
    };
    for (const auto& [name, tensor] : save.state.tensors) add(tensor);
    for (const auto& [name, tensor] : save.model.tensors) add(tensor);
    for (const auto& [from, bytes] : seen) {
      parts_.push_back({from, std::vector<char>(bytes)});
      bytes_ += static_cast<double>(bytes);
    }
  }
  void run() {
    for (auto& [from, to] : parts_) std::memcpy(to.data(), from, to.size());
  }
  double bytes() const { return bytes_; }

 private:
  std::vector<std::pair<const void*, std::vector<char>>> parts_;
  double bytes_ = 0;
};

at::Tensor random_pictures(const PauseBench& bench) {
  const auto data = bench.config.read<DataOptions>();
  return torch::tanh(
      normal(Stream(0, "bench"),
             {0, 1, bench.step.plan().batch},
             {data.channels.value_or(3), data.resolution.height, data.resolution.width}));
}

struct PauseTimes {
  std::vector<double> pause, memcpy, write, alone, beside;
};

constexpr int64_t kIteration = 1;  // of phases that are lazy: none is due

CheckpointWriter::Save save_of(const PauseBench& bench,
                               const fs::path& state,
                               const fs::path& model) {
  return {state,
          model,
          state_archive(named(bench.step.state()), Counters{}, bench.config),
          model_file(bench.step, Counters{}, bench.config.read<ModelOptions>().raw)};
}

// One save, and steps until it is written. Those that began after that do not count.
void save_once(const PauseBench& bench,
               const at::Tensor& real,
               CheckpointWriter& writer,
               PlainCopy& plain,
               PauseTimes& times) {
  const auto step = [&] { bench.step.run({real, {}}, {kIteration, 0}); };
  times.memcpy.push_back(seconds_of([&] { plain.run(); }));
  times.alone.push_back(seconds_of(step));
  std::atomic<double> written = 0;  // when
  const CheckpointWriter::Save save =
      save_of(bench, bench.folder / "pause.pt", bench.folder / "pause.safetensors");
  const double start = monotonic_seconds();
  writer.save(save, [&written] { written = monotonic_seconds(); });
  times.pause.push_back(monotonic_seconds() - start);
  do {
    times.beside.push_back(seconds_of(step));
  } while (written == 0);
  writer.wait();
  times.write.push_back(written - start);
}

// Measures what training sees of a save whose files are written in the background, on random
// pictures on the CPU. Returns "bytes" that are copied, and per round "pause" (seconds until the
// step may go on), "memcpy" (of as many bytes into warm memory), "write" (seconds until the files
// are on the disk), "step_alone", "step_beside" (seconds of an iteration without and beside the
// writing), with "pause_of_memcpy" and "step_of_alone", the medians of their quotients.
Json measure_pause(const PauseBench& bench) {
  const at::Tensor real = random_pictures(bench);
  CheckpointWriter writer;
  const CheckpointWriter::Save first = save_of(bench, {}, {});
  writer.reserve(first);
  PlainCopy plain(first);
  plain.run();
  for (int i = 0; i < 2; ++i) bench.step.run({real, {}}, {kIteration, 0});  // warm
  PauseTimes times;
  for (int64_t i = 0; i < bench.rounds; ++i) save_once(bench, real, writer, plain, times);
  const double alone = median(times.alone);
  std::vector<double> of_alone;
  for (const double beside : times.beside) of_alone.push_back(beside / alone);
  return {{"bytes", plain.bytes()},
          {"pause", spread_of(times.pause)},
          {"memcpy", spread_of(times.memcpy)},
          {"write", spread_of(times.write)},
          {"step_alone", spread_of(times.alone)},
          {"step_beside", spread_of(times.beside)},
          {"pause_of_memcpy", ratio_of(quotients(times.pause, times.memcpy))},
          {"step_of_alone", ratio_of(of_alone)}};
}

// Prints that in three lines.
void print_pause(const Json& pause) {
  const auto seconds = [&](const char* name) { return median_of(pause.at(name)); };
  fmt::print("  a save in training: {:.1f} MB are copied, then written in the background\n",
             1e-6 * pause.at("bytes").get<double>());
  fmt::print("  the training waits {:.3f} s, {} of a memcpy ({:.3f} s); files after {:.3f} s\n",
             seconds("pause"),
             ratio_text(pause.at("pause_of_memcpy")),
             seconds("memcpy"),
             seconds("write"));
  fmt::print("  an iteration takes {:.3f} s, beside the writing {:.3f} s: {}\n",
             seconds("step_alone"),
             seconds("step_beside"),
             ratio_text(pause.at("step_of_alone")));
}

// Seconds and bytes of writing a file, and of writing as many bytes without more ado.
struct Written {
  std::vector<double> seconds, floor;
  double bytes = 0;

  Json to_json(const char* name) const {
    std::vector<double> rates;
    for (const double s : seconds) rates.push_back(bytes / s);
    return {{"name", name},
            {"bytes", bytes},
            {"seconds", spread_of(seconds)},
            {"bytes_per_second", spread_of(rates)},
            {"floor", spread_of(floor)},
            {"of_floor", ratio_of(quotients(seconds, floor))}};
  }
};

Json measure_save(const BenchSaveRequest& request,
                  FindRecipe find_recipe,
                  const Rendezvous& rendezvous) {
  constexpr double kTimeout = 300;  // seconds
  const Config& config = *request.config;
  const auto data = config.read<DataOptions>();
  const bool raw = config.read<ModelOptions>().raw;
  const auto group = Group::join(rendezvous, BackendKind::kGloo, at::kCPU, kTimeout);
  TrainingStep step({config,
                     find_recipe(text_of(config.get("recipe"))),
                     group,
                     at::kCPU,
                     data.resolution,
                     data.channels.value_or(3)});
  const ScratchFolder folder(request.folder);
  const fs::path state = folder.path() / "state.pt", model = folder.path() / "model.safetensors",
                 plain = folder.path() / "plain";
  Written states, models;
  const auto write = [](Written& written, const fs::path& path, const std::function<void()>& work) {
    written.seconds.push_back(seconds_of(work));
    written.bytes = static_cast<double>(fs::file_size(path));
  };
  const auto write_plain = [&](Written& written, const fs::path& like) {
    const std::string content = read_file(like);
    written.floor.push_back(seconds_of([&] { write_file(plain, content); }));
  };
  for (int64_t round = 0; round < request.rounds; ++round) {
    write(states, state, [&] { save_state(state, named(step.state()), Counters{}, config); });
    write_plain(states, state);
    write(models, model, [&] { write_model(model, model_file(step, Counters{}, raw)); });
    write_plain(models, model);
  }
  return {{"files", {states.to_json("state"), models.to_json("model")}},
          {"training", measure_pause({step, config, request.rounds, folder.path()})}};
}

void print_files(const Json& answer) {
  fmt::print(
      "  file             MB    seconds           quartiles     MB/s      floor               "
      "of the floor\n");
  for (const Json& file : answer.at("files")) {
    const Json& seconds = file.at("seconds");
    fmt::print("  {:<8} {:>10.1f} {:>10.3f} {} {:>8.0f} {:>10.3f} {:>26}\n",
               file.at("name").get<std::string>(),
               1e-6 * file.at("bytes").get<double>(),
               median_of(seconds),
               quartiles_of(seconds),
               1e-6 * median_of(file.at("bytes_per_second")),
               median_of(file.at("floor")),
               ratio_text(file.at("of_floor")));
  }
  print_pause(answer.at("training"));
}

}  // namespace

int bench_data(const BenchDataRequest& request) {
  const std::string reason = request.peers.python.empty()
                                 ? "--python is empty"
                                 : why_not_import(request.peers, kPillow, "PIL, numpy, zipfile");
  Json result = {{"bench", "data"}, {"load", {load_average()}}, {"formats", Json::array()}};
  fmt::print(
      "{} pictures of {} pixels, loaded as {}; pictures per second of one core; load {:.1f}\n",
      request.pictures,
      request.size,
      request.resolution,
      load_average());
  for (const char* format : {"jpg", "png"}) {
    result["formats"].push_back(measure_format(format, request, reason.empty()));
    print_format(result["formats"].back());
    std::fflush(stdout);
  }
  return finish_bench(result, {request.json, "Pillow", reason});
}

int bench_save(const BenchSaveRequest& request, FindRecipe find_recipe) {
  if (!fs::is_directory(request.folder))
    fail(Exit::kDisk, "--folder {}: there is no such folder", request.folder);
  make_writable_folder(request.folder);
  Json result = {{"bench", "save"}, {"about", request.about}, {"load", {load_average()}}};
  fmt::print("{}; floor: as many bytes written and flushed to the same disk; load {:.1f}\n",
             request.about,
             load_average());
  result.update(in_child(request.threads, [&](const Rendezvous& rendezvous) {
    return measure_save(request, find_recipe, rendezvous);
  }));
  print_files(result);
  return finish_bench(result, {request.json});
}

}  // namespace gantrain
