// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "config/config.h"
#include "config/schema.h"
#include "launch/where/network.h"
#include "page/run_record.h"
#include "track/track.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

// All of these are in seconds.
constexpr double kBetweenLooks = 5, kFirstPause = 1, kLongestPause = 300, kSilence = 1800;
constexpr double kOfRequest = 30;  // at most
constexpr double kLockWait = 5;    // for a process that is just ending

constexpr size_t kMostValues = 900;  // in one request, about: MLflow takes 1000
constexpr const char* kStateFile = "track.json";

// What is remembered of one server.
struct Sent {
  std::string id;
  std::string first;  // hash of the first line of stats.jsonl
  Json remote = Json::object();
  Json files = Json::object();  // name -> Cursor

  Cursor cursor(const std::string& file) const {
    if (!files.contains(file)) return {};
    Json cursor = files[file];
    if (cursor.is_object()) cursor.emplace("steps", Json::array());  // earlier versions had none
    return message_from<Cursor>(cursor);
  }
};

template <class Field>
void fields(Sent& s, Field&& field) {
  field("id", s.id);
  field("first", s.first);
  field("remote", s.remote);
  field("files", s.files);
}

// RUN/track.json, which the threads of all servers share.
class StateFile {
 public:
  explicit StateFile(fs::path path) : path_(std::move(path)) {
    std::error_code error;
    if (!fs::exists(path_, error)) return;
    json_ = parse_foreign(read_regular_file(path_, kMostOfJson));
    if (!json_.is_object() || !json_.contains("servers") || !json_["servers"].is_object()) broken();
  }

  // Separated by commas.
  std::string servers() const {
    std::vector<std::string> names;
    for (const auto& [name, sent] : json_["servers"].items()) names.push_back(name);
    return join(names, ",");
  }

  Sent read(const std::string& server) {
    if (!json_["servers"].contains(server)) return {.id = random_hex(16)};
    try {
      const auto sent = message_from<Sent>(json_["servers"][server]);
      for (const auto& [file, cursor] : sent.files.items()) sent.cursor(file);
      return sent;
    } catch (const std::exception&) {
      broken();
    }
  }

  void write(const std::string& server, const Sent& sent) {
    const std::lock_guard lock(mutex_);
    json_["servers"][server] = message_of(sent);
    write_file(path_, json_.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  }

 private:
  [[noreturn]] void broken() const {
    fail(Exit::kInput,
         "{}: is broken, so what was sent is not known; without this file all rows are sent to a "
         "new run there",
         path_.string());
  }

  fs::path path_;
  std::mutex mutex_;
  Json json_ = {{"servers", Json::object()}};
};

// The values of RUN/config.json as text, by key; nothing while there is no whole file.
std::optional<std::map<std::string, std::string>> settings_of(const fs::path& run) {
  const Json config = parse_foreign(content_of(run / "config.json", kMostOfJson).value_or(""));
  if (!config.is_object() || !config.contains("values") || !config["values"].is_object())
    return std::nullopt;
  std::map<std::string, std::string> settings;
  for (const auto& [key, entry] : config["values"].items()) {
    if (entry.is_object() && entry.contains("value"))
      settings[key] = printable(text_of(entry["value"]), 500);
  }
  return settings;
}

std::string status_of(const fs::path& run) {
  return trim(content_of(run / "STATUS", kMostOfText).value_or(""));
}

// The run is another one from now on.
struct BegunAnew {};

// Sends to one server.
class Sender {
 public:
  Sender(fs::path run, const TrackTarget& target, const TrackOptions& options, StateFile& state)
      : run_(std::move(run)),
        name_(target.text()),
        options_(options),
        state_(state),
        sent_(state.read(name_)),
        server_(make_server(target)),
        last_success_(monotonic_seconds()) {}

  // Returns false where rows are left.
  bool work() {
    for (double pause = kFirstPause;;) {
      double wait = kBetweenLooks;
      try {
        server_->allow(std::min(kOfRequest, std::max(1.0, left())));
        const bool over = is_over();  // looked up first: what came before it is read then
        if (go_on()) {
          pause = kFirstPause, last_work_ = monotonic_seconds();
          continue;
        }
        if (over) {
          close();
          return true;
        }
      } catch (const BegunAnew&) {
        info("track   {} gets a new run: --resume none has begun afresh", name_);
        continue;
      } catch (const TrackFailure& e) {
        wait = later(e, pause);
      } catch (const nlohmann::json::exception&) {
        wait = later({TrackFailure::Kind::kStranger, "answers with other JSON than a tracker's"},
                     pause);
      } catch (const UserError& e) {  // track.json cannot be written
        wait = later({TrackFailure::Kind::kAway, e.what()}, pause);
      }
      if (left() <= 0) return false;
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(wait, left())));
    }
  }

 private:
  double left() const {
    return options_.follow ? 1e9 : last_success_ + options_.wait - monotonic_seconds();
  }

  bool is_over() {  // a session that was killed says no end; the next one may begin soon
    if (!options_.follow) return true;
    const std::string status = status_of(run_);
    if (status.empty() || may_be_at_work(run_)) last_work_ = monotonic_seconds();
    if (!starts_with(status, "running")) return !status.empty() && !may_be_at_work(run_);
    if (monotonic_seconds() - last_work_ < kSilence) return false;
    warn("track   nobody is at work in {}, which has no end", run_.string());
    return true;
  }

  // Tells what went wrong. Returns how long to wait now; the next time it is longer.
  double later(const TrackFailure& failure, double& pause) {
    tell(failure);
    const double now = std::max(pause, failure.pause);
    pause = std::min(2 * pause, kLongestPause);
    last_work_ = monotonic_seconds() + now;  // nobody looks meanwhile
    return now;
  }

  void save() { state_.write(name_, sent_); }

  // Does the next thing; false if there is nothing to do now.
  bool go_on() {
    if (!is_open_) return open();
    for (const std::string& file : files()) {
      const auto piece =
          RowFile(run_, file).next(sent_.cursor(file), most_values_, [this] { begin_anew(); });
      if (!piece) continue;
      if (piece->of_other_recipes > 0 && told_recipes_.insert(file).second) {
        warn(
            "track   {}: rows of {} that were measured another way than its first ones are left "
            "out, since one curve cannot show both",
            name_,
            file);
      }
      if (piece->rows.empty()) sent_.files[file] = message_of(piece->after);
      if (!piece->rows.empty()) send(file, *piece);
      return true;
    }
    return false;
  }

  std::vector<std::string> files() const {
    std::vector<std::string> names = {"stats.jsonl"};
    for (const fs::path& path : paths_in(run_, "metric-", ".jsonl"))
      names.push_back(path.filename());
    return names;
  }

  // False while the run has no config.json.
  bool open() {
    const auto settings = settings_of(run_);
    if (!settings) return false;
    facts_ = {sent_.id, run_.filename(), *settings, unix_seconds(), status_of(run_)};
    save();  // before anything is made under this id
    server_->open(sent_.remote, facts_, [this] { save(); });
    is_open_ = true;
    succeeded();
    info("track   {}", server_->page(sent_.remote, facts_));
    return true;
  }

  // The file was cut back or begun anew. Where that was asked for, it is another run; else the same
  // one, whose earlier rows are there.
  void begin_anew() {
    const auto settings = settings_of(run_);
    const std::string first = RowFile(run_, "stats.jsonl").first_line();
    const bool asked =
        settings && settings->count("run.resume") != 0 && settings->at("run.resume") == "none";
    if (!asked || sent_.first.empty() || first.empty() || first == sent_.first) return;
    sent_ = {.id = random_hex(16)};
    is_open_ = false;
    save();
    throw BegunAnew();
  }

  void send(const std::string& file, Piece piece) {
    // After the loss of an answer the file may have been cut back, and grow again by fewer rows.
    Cursor before = sent_.cursor(file);
    const bool maybe_sent = std::ranges::any_of(
        piece.rows, [&](const TrackedRow& row) { return row.step <= before.maybe; });
    for (const TrackedRow& row : piece.rows) before.maybe = std::max(before.maybe, row.step);
    sent_.files[file] = message_of(before);
    save();
    try {
      server_->send(sent_.remote, facts_, piece.rows, maybe_sent);
    } catch (const TrackFailure& e) {
      if (e.kind != TrackFailure::Kind::kTooLarge && e.kind != TrackFailure::Kind::kRejected) throw;
      if (piece.rows.size() > 1) {
        most_values_ = 1;  // a row by itself
        return;
      }
      warn("track   {} {}; the row of {} images in {} is left out",
           name_,
           e.what(),
           piece.rows.front().step,
           file);
    }
    most_values_ = kMostValues;
    if (file == "stats.jsonl" && sent_.first.empty())
      sent_.first = RowFile(run_, file).first_line();
    piece.after.maybe = before.maybe;
    sent_.files[file] = message_of(piece.after);
    save();
    succeeded();
  }

  void close() {
    facts_.status = status_of(run_);
    const bool goes_on = starts_with(facts_.status, "running") && may_be_at_work(run_);
    if (is_open_ && !goes_on) server_->close(sent_.remote, facts_);
    save();
    succeeded();
  }

  void succeeded() {
    last_success_ = monotonic_seconds();
    if (!told_.empty()) info("track   {} takes rows again", name_);
    told_.clear();
  }

  // Each trouble once.
  void tell(const TrackFailure& failure) {
    const std::string text = failure.what();
    if (text == told_) return;
    told_ = text;
    warn("track   {} {}{}",
         name_,
         text,
         options_.follow ? "; training goes on, and the rows are sent later" : "");
  }

  const fs::path run_;
  const std::string name_;
  const TrackOptions options_;
  StateFile& state_;
  Sent sent_;
  std::unique_ptr<TrackServer> server_;
  TrackedRun facts_;
  bool is_open_ = false;
  size_t most_values_ = kMostValues;
  double last_success_, last_work_ = monotonic_seconds();  // seconds
  std::string told_;                                       // the last trouble
  std::set<std::string> told_recipes_;                     // files of which rows are left out
};

// One process sends the rows of a run at a time. On file systems without locks the lock is none.
UniqueFd lock_of(const fs::path& run, bool waits) {
  UniqueFd lock(open_regular(run / ".track.lock", O_RDWR | O_CREAT));
  const double give_up = monotonic_seconds() + kLockWait;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) break;
    if (!waits && monotonic_seconds() > give_up)
      fail(Exit::kUsage, "{}: another process sends its rows, as the training does", run.string());
    ::usleep(100'000);
  }
  return lock;
}

}  // namespace

std::vector<std::string> track(const fs::path& run,
                               const std::vector<TrackTarget>& targets,
                               const TrackOptions& options) {
  std::error_code error;
  const fs::path folder = fs::canonical(run, error);
  if (error) fail(Exit::kInput, "{}: there is no such run folder", run.string());
  const UniqueFd lock = lock_of(folder, options.follow);
  StateFile state(folder / kStateFile);
  std::vector<std::unique_ptr<Sender>> senders;
  for (const TrackTarget& target : targets)
    senders.push_back(std::make_unique<Sender>(folder, target, options, state));
  std::vector<char> complete(targets.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < targets.size(); ++i)
    threads.emplace_back([&, i] { complete[i] = senders[i]->work() ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  std::vector<std::string> behind;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (complete[i] == 0) behind.push_back(targets[i].text());
  }
  return behind;
}

std::string tracked_servers(const fs::path& run) { return StateFile(run / kStateFile).servers(); }

}  // namespace gantrain
