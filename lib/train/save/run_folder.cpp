// SPDX-License-Identifier: Apache-2.0
#include "train/save/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "config/config.h"
#include "util/error.h"
#include "util/file.h"
#include "util/file_kind.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

fs::path make_numbered_folder(const fs::path& out, const std::string& name) {
  make_writable_folder(out);
  int64_t next = 0;
  std::error_code unreadable;
  for (const fs::directory_entry& entry : fs::directory_iterator(out, unreadable)) {
    const std::string have = entry.path().filename();
    const size_t dash = have.find('-');
    if (dash == std::string::npos) continue;
    if (const auto number = parse_int(have.substr(0, dash))) next = std::max(next, *number + 1);
  }
  if (unreadable) {
    fail(Exit::kDisk,
         "{}: cannot be listed: {}; --run-dir names a folder of its own",
         out.string(),
         unreadable.message());
  }
  for (;; ++next) {
    const fs::path folder = out / fmt::format("{:05}-{}", next, name);
    std::error_code error;
    if (fs::create_directory(folder, error)) {
      const fs::path link = out / "latest";
      const fs::path fresh = temporary_name(out / ".latest");
      fs::create_directory_symlink(folder.filename(), fresh, error);
      if (!error) fs::rename(fresh, link, error);
      return folder;
    }
    if (error) fail(Exit::kDisk, "{}: cannot be made: {}", folder.string(), error.message());
  }
}

void write_status(const fs::path& folder, const std::string& line) {
  write_file(folder / "STATUS", line + "\n");
}

std::string read_status(const fs::path& folder) {
  // A folder that cannot be looked into is refused where it is made or opened for writing.
  return trim(content_of(folder / "STATUS", kMostOfText).value_or(""));
}

namespace {

constexpr double kMostKimg = 1e12;  // in the name of a file

// PREFIX + kimg + SUFFIX of a folder, newest first.
std::vector<NumberedFile> find_numbered(const fs::path& folder,
                                        std::string_view prefix,
                                        std::string_view suffix,
                                        Listing listing = Listing::kLenient) {
  std::vector<NumberedFile> files;
  std::error_code error;
  const fs::directory_iterator entries(folder, error);
  if (listing == Listing::kStrict && error && error != std::errc::no_such_file_or_directory)
    fail(Exit::kInput, "{}: cannot be listed: {}", folder.string(), error.message());
  for (const fs::directory_entry& entry : entries) {
    const std::string name = entry.path().filename();
    if (!starts_with(name, prefix) || !ends_with(name, suffix)) continue;
    const size_t digits = name.size() - prefix.size() - suffix.size();
    const auto kimg = parse_double(name.substr(prefix.size(), digits));
    if (!kimg || !(*kimg >= 0 && *kimg < kMostKimg)) continue;
    files.push_back({entry.path(), static_cast<int64_t>(*kimg * 1000 + 0.5)});
  }
  std::sort(files.begin(), files.end(), [](const NumberedFile& a, const NumberedFile& b) {
    return a.images > b.images;
  });
  return files;
}

// Without pipes, folders and what else bears the name of a file that gantrain has written.
std::vector<NumberedFile> regular_ones(std::vector<NumberedFile> files) {
  const auto is_other = [](const NumberedFile& file) {
    std::error_code error;
    return !fs::is_regular_file(file.path, error);
  };
  files.erase(std::remove_if(files.begin(), files.end(), is_other), files.end());
  return files;
}

// `files` are of one kind, newest first.
void prune(const std::vector<NumberedFile>& files,
           int64_t keep_last,
           int64_t keep_every,
           int64_t way_back = -1) {
  const auto back = std::ranges::find_if(
      files, [&](const NumberedFile& file) { return file.images <= way_back; });
  for (size_t i = 0; i < files.size(); ++i) {
    if (back - files.begin() == static_cast<ptrdiff_t>(i)) continue;
    // The first file at or after a multiple of keep_every stays.
    const int64_t before = i + 1 < files.size() ? files[i + 1].images : 0;
    const bool milestone = keep_every > 0 && files[i].images / keep_every > before / keep_every;
    if (milestone || static_cast<int64_t>(i) < keep_last) continue;
    std::error_code error;
    fs::remove(files[i].path, error);
  }
}

// Rounded up.
int64_t megabytes(int64_t bytes) { return (bytes + 999'999) / 1'000'000; }

std::string grouped(int64_t count) { return gantrain::grouped(static_cast<double>(count)); }

// What outlives a killed launcher has the lock while it writes down the reason, which is a moment.
constexpr double kGuardSeconds = 1;
constexpr double kEndingSeconds = 60;
// A file server keeps the locks of a machine that is gone for its lease: 90 s with NFSv4.
constexpr double kLeaseSeconds = 120;
// /proc/locks may lack a line while other locks come and go, so one look is not enough.
constexpr int kLooks = 10;

// The process that locked the file, as /proc/locks has it: "7: FLOCK ADVISORY WRITE 3121 fe:00:24 0
// EOF". Nothing where the kernel does not tell: it works on another machine, or in another
// namespace.
std::optional<int64_t> holder_of(int file, const fs::path& table) {
  struct stat about {};
  if (::fstat(file, &about) != 0) return std::nullopt;
  const std::string wanted =
      fmt::format("{:02x}:{:02x}:{}", major(about.st_dev), minor(about.st_dev), about.st_ino);
  std::ifstream locks(table);
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, mode, type, process, place;
    words >> number >> kind >> mode >> type >> process >> place;
    if (kind == "FLOCK" && place == wanted) return parse_int(process);
  }
  return std::nullopt;
}

bool is_killed(const std::string& status_file) {
  const std::string state = proc_value(status_file, "State");
  if (starts_with(state, "Z") || starts_with(state, "X")) return true;
  for (const char* pending : {"SigPnd", "ShdPnd"}) {
    const std::string mask = proc_value(status_file, pending);
    if (std::strtoull(mask.c_str(), nullptr, 16) >> (SIGKILL - 1) & 1) return true;
  }
  return false;
}

// Whether the process is gone or on its way, so that what it holds will be free.
bool is_ending(int64_t process) {
  std::error_code error;
  const fs::path folder = "/proc/" + std::to_string(process);
  if (!fs::exists(folder, error)) return true;
  for (fs::directory_iterator thread(folder / "task", error), end; !error && thread != end;
       thread.increment(error)) {
    if (is_killed((thread->path() / "status").string())) return true;
  }
  return false;
}

}  // namespace

std::vector<NumberedFile> find_states(const fs::path& folder, Listing listing) {
  return find_numbered(folder, "state-", ".pt", listing);
}

std::vector<NumberedFile> find_models(const fs::path& folder) {
  return regular_ones(find_numbered(folder, "model-", ".safetensors"));
}

std::vector<NumberedFile> find_averages(const fs::path& folder) {
  return regular_ones(find_numbered(folder / "averages", "average-", ".safetensors"));
}

fs::path find_model(const fs::path& file_or_run) {
  std::error_code error;
  refuse_address(file_or_run.string());
  if (!fs::exists(file_or_run, error)) {
    fail(Exit::kInput,
         "{}: no such model or run folder; model-*.safetensors or a run folder is needed",
         file_or_run.string());
  }
  if (fs::is_regular_file(file_or_run, error)) return file_or_run;
  if (!fs::is_directory(file_or_run, error)) {
    // Its end may never come: nobody need be writing to a named pipe.
    fail(Exit::kInput,
         "{}: a pipe or a device; model-*.safetensors or a run folder is needed",
         file_or_run.string());
  }
  const std::vector<NumberedFile> models = find_models(file_or_run);
  const fs::path shared = file_or_run / "model.safetensors";  // of gantrain export
  if (models.empty() && fs::is_regular_file(shared, error)) return shared;
  if (models.empty()) fail(Exit::kInput, "{}: holds no model-*.safetensors", file_or_run.string());
  return models.front().path;
}

int64_t images_of_model(const fs::path& file) {
  for (const NumberedFile& one : find_models(file.parent_path())) {
    if (one.path == file) return one.images;
  }
  return -1;
}

void check_resumable(const fs::path& where) {
  std::error_code error;
  if (fs::is_directory(where, error)) return;
  if (!fs::is_regular_file(where, error)) {
    fail(Exit::kInput,
         "{}: no such state or run folder; --resume takes a state-*.pt, a run folder, auto or "
         "none; --init-from MODEL begins a new run at the weights of a model file or a run, and "
         "nothing is downloaded",
         where.empty() ? "--resume \"\"" : where.string());
  }
  const std::string ending = lower(where.extension().string());
  const std::vector<std::string> models = {
      ".safetensors", ".pkl", ".ckpt", ".pth", ".bin", ".onnx"};
  if (!contains(models, ending)) return;
  const bool foreign = ending != ".safetensors";
  fail(Exit::kInput,
       "{}: a model file holds weights, not the state of a run; {}--init-from {} begins a new run "
       "at them",
       where.string(),
       foreign ? "after gantrain import, " : "",
       foreign ? "MODEL" : shell_quote(where.string()));
}

void prune_states(const fs::path& folder,
                  int64_t keep_last,
                  int64_t keep_every,
                  int64_t best_images) {
  prune(regular_ones(find_states(folder)), keep_last, keep_every, best_images);
}

void prune_models(const fs::path& folder, int64_t keep_last, int64_t keep_every) {
  prune(find_models(folder), keep_last, keep_every);
}

void rename_aside(const std::vector<fs::path>& files) {
  const auto name_of = [](fs::path file, int number) {
    const std::string again = number == 1 ? "" : fmt::format("{}-", number);
    return file.replace_filename("superseded-" + again + file.filename().string());
  };
  std::error_code error;
  int number = 1;
  const auto is_taken = [&](const fs::path& file) {
    return fs::exists(name_of(file, number), error);
  };
  while (std::ranges::any_of(files, is_taken)) ++number;
  for (const fs::path& file : files) {
    if (!fs::exists(file, error)) continue;
    fs::rename(file, name_of(file, number), error);
    if (error) fail(Exit::kDisk, "{}: cannot be renamed: {}", file.string(), error.message());
  }
}

int64_t set_aside(const fs::path& folder, int64_t images) {
  int64_t count = 0;
  for (const auto& files :
       {find_states(folder, Listing::kStrict), find_models(folder), find_averages(folder)}) {
    for (const NumberedFile& file : files) {
      if (file.images <= images) break;
      rename_aside({file.path});
      ++count;
    }
  }
  return count;
}

bool take_request(const fs::path& folder, const std::string& name) {
  std::error_code error;
  return fs::remove(folder / name, error);
}

std::string generate_command(const std::string& model, const std::string& more) {
  return fmt::format(
      "{} generate --model {} --seeds 0-63{} -o grid.png", program(), shell_quote(model), more);
}

bool goes_on_by_itself(const RunOptions& options) {
  const fs::path own = options.run_dir, from = options.resume;
  if (options.resume == "auto") return true;
  std::error_code error;
  const fs::path there = fs::is_directory(from, error) ? from : from.parent_path() / ".";
  if (own.empty() || find_states(own).empty() || fs::equivalent(there, own, error)) return false;
  std::string commands = content_of(own / "command.txt", kMostOfLines).value_or("") + " ";
  std::ranges::replace(commands, '\n', ' ');
  const std::string value = shell_quote(options.resume) + " ";
  return commands.find("--resume " + value) != std::string::npos ||
         commands.find("--resume=" + value) != std::string::npos;
}

fs::path resumed_run(const RunOptions& options) {
  if (options.resume == "none") return {};
  if (goes_on_by_itself(options)) return options.run_dir;
  std::error_code error;  // of a name that cannot be
  const fs::path from = options.resume;
  return fs::is_directory(from, error) ? from : from.parent_path();
}

std::string resume_command(const std::string& command, const std::string& folder) {
  const bool named = command.find("--run-dir") != std::string::npos;
  // Before the first save, what the command asks for holds: the run may resume another one.
  const bool elsewhere =
      command.find("--resume") != std::string::npos && !find_states(folder).empty();
  return command + (named ? "" : " --run-dir " + shell_quote(folder)) +
         (elsewhere && !ends_with(command, " --resume auto") ? " --resume auto" : "");
}

Json describe_environment(const std::string& device, int64_t world) {
  Json json = {{"gantrain", kVersion},
               {"started", timestamp()},
               {"host", host_name()},
               {"cores", std::thread::hardware_concurrency()},
               {"device", device},
               {"ranks", world}};
  for (const char* name : {"SLURM_JOB_ID",
                           "SLURM_STEP_ID",
                           "SLURM_JOB_NAME",
                           "SLURM_RESTART_COUNT",
                           "TORCHELASTIC_RUN_ID",
                           "CUDA_VISIBLE_DEVICES",
                           "OMP_NUM_THREADS"}) {
    if (const char* value = std::getenv(name)) json["environment"][name] = value;
  }
  return json;
}

DiskNeed disk_need(const SaveBytes& each,
                   const SaveOptions& save,
                   int64_t images,
                   int64_t images_seen,
                   std::optional<int64_t> models_kept,
                   int64_t snapshot_every) {
  const auto times = [&](int64_t interval) {
    return interval > 0 ? images / interval - images_seen / interval : 0;
  };
  const int64_t saves = std::max<int64_t>(times(save.every.images), 0) + 1;  // and one at the end
  const int64_t kept = std::max<int64_t>(times(save.keep_every.images), 0);
  const int64_t best = save.keep_best.empty() ? 0 : 1;
  const int64_t states = std::min(saves, save.keep_last + kept + best);
  const int64_t written = saves + (images_seen == 0 ? 1 : 0);
  const int64_t models = models_kept ? std::min(written, *models_kept + kept) : written;
  return {.each = each,
          .states = states + 1,
          .models = std::min(models + 1, written) + best,
          .states_left = states,
          .models_left = models + best,
          .snapshots = each.snapshot == 0
                           ? 0
                           : times(snapshot_every) + (images % snapshot_every == 0 ? 0 : 1)};
}

std::string to_text(const DiskNeed& need) {
  const auto files = [](int64_t count, const char* kind, int64_t bytes) {
    return fmt::format("{} of {} MB", counted(count, kind), grouped(megabytes(bytes)));
  };
  const std::string snapshots =
      need.snapshots == 0
          ? ""
          : ", " + files(need.snapshots, "snapshot", need.each.snapshot) + " of averages";
  return fmt::format("{} MB on disk at the end ({}, {}{}), at most {} MB until then",
                     grouped(megabytes(need.bytes_left())),
                     files(need.states_left, "state", need.each.state),
                     files(need.models_left, "model", need.each.model),
                     snapshots,
                     grouped(megabytes(need.bytes())));
}

void check_disk(const std::filesystem::path& folder, const DiskNeed& need) {
  const int64_t room = free_bytes(folder);
  if (room < 0) return;
  const int64_t one = need.each.state + need.each.model;
  if (room < one) {
    fail(Exit::kDisk,
         "{}: a state and a model: {}; free some, or give a folder on another disk",
         folder.string(),
         lack_text(one, room));
  }
  if (room < need.bytes()) {
    warn(
        "{}: the disk has {} MB free, the run needs {}; see --keep-last, --keep-models, "
        "--save-every{}",
        folder.string(),
        room / 1'000'000,
        to_text(need),
        need.snapshots > 0 ? ", ema.snapshot_every, ema.snapshot_type" : "");
  }
}

namespace {

// Who has a lock that another process wants, look by look.
class LockHolder {
 public:
  LockHolder(const fs::path& folder, fs::path table) : folder_(folder), table_(std::move(table)) {}

  // Whether the lock is worth waiting for after so many seconds. It is where its holder is ending,
  // or is not on this machine, which may be gone.
  bool may_be_freed(int lock, double waited) {
    const std::optional<int64_t> holder = holder_of(lock, table_);
    if (holder) seen_ = true;
    const bool ending = holder && is_ending(*holder);
    looks_ = ending ? 0 : looks_ + 1;
    if (ending) {
      say(fmt::format("what is left of its last run, pid {}, is ending", *holder));
      return waited < kEndingSeconds;
    }
    if (looks_ < kLooks) return true;
    if (seen_) return false;
    say(
        fmt::format("no process of this machine has locked it; another one may, or may be gone: at "
                    "most {}",
                    short_duration(kLeaseSeconds)));
    return waited < kLeaseSeconds;
  }

 private:
  void say(const std::string& why) {
    if (!said_) info("waiting {}: {}", folder_.string(), why);
    said_ = true;
  }

  const fs::path& folder_;
  const fs::path table_;
  // The holder is on this machine; so it is taken to be where the kernel has no list.
  bool seen_ = !fs::exists(table_);
  int looks_ = 0;  // in a row that found no ending process
  bool said_ = false;
};

}  // namespace

int lock_run_folder(const fs::path& folder, const fs::path& table) {
  make_writable_folder(folder);
  const std::string path = folder / ".lock";
  const int lock = open_regular(path, O_RDWR | O_CREAT);
  const double begun = monotonic_seconds();
  LockHolder holder(folder, table);
  bool locked = false;
  while (!(locked = ::flock(lock, LOCK_EX | LOCK_NB) == 0) && errno == EWOULDBLOCK) {
    const double waited = monotonic_seconds() - begun;
    const bool goes_on = waited < kGuardSeconds || holder.may_be_freed(lock, waited);
    errno = EWOULDBLOCK;
    if (!goes_on) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (locked) return lock;
  if (errno == EWOULDBLOCK) {
    ::close(lock);
    fail(Exit::kUsage, "{}: another run is at work there; give another --run-dir", folder.string());
  }
  warn("{}: {}: two runs in this folder would not notice each other", path, errno_text());
  return lock;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FolderLock::take(const fs::path& folder) {
  if (descriptor_ < 0) descriptor_ = lock_run_folder(folder);
}

Json header_of_model(const std::filesystem::path& file) {
  constexpr uint64_t kMost = 16 << 20;  // bytes
  std::ifstream stream(file, std::ios::binary);
  uint64_t length = 0;
  if (!stream.read(reinterpret_cast<char*>(&length), sizeof(length)) || length > kMost) return {};
  std::string header(length, '\0');
  if (!stream.read(header.data(), static_cast<std::streamsize>(length))) return {};
  const Json json = Json::parse(header, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json();
}

Json model_in_header(const Json& header) {
  if (!header.is_object() || !header.contains("__metadata__")) return {};
  const Json& metadata = header["__metadata__"];
  if (!metadata.is_object() || !metadata.contains("gantrain.model")) return {};
  const Json& model = metadata["gantrain.model"];
  return model.is_string() ? Json::parse(model.get<std::string>(), nullptr, false) : Json();
}

}  // namespace gantrain
