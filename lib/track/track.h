// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/value.h"

namespace gantrain {

// HTTP, as far as trackers need it.

// The address of a server: "https://host:5000/prefix".
struct Url {
  bool tls = false;
  std::string host;  // without the brackets of IPv6
  int port = 0;
  std::string path;  // "" or "/prefix", without a slash at its end

  std::string authority() const;  // "host:5000", without the port where it is the usual one
  std::string text() const;
};

// Reads an http or https address. Throws UserError(kUsage) that names `flag` for what is none, and
// for one with a user, a password, a query or a fragment: these may be secrets, so the text itself
// is not repeated.
Url parse_url(const std::string& flag, const std::string& text);

// Whose certificates an https client trusts.
struct Trust {
  bool verify = true;
  std::string certificates;  // a file of trusted certificates; "": the system's
};

struct HttpRequest {
  std::string method = "POST";
  std::string path;  // behind the server's own
  std::string body;
  std::map<std::string, std::string> headers;
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  std::string header(const std::string& name) const;  // "" where there is none
};

// The server gave no answer: it cannot be reached, is silent, or breaks off. The text says which.
// Whether it has obeyed the request is not known.
class NoAnswer : public std::runtime_error {
  using runtime_error::runtime_error;
};

// Sends one request over a connection of its own and returns the answer, whatever its status;
// redirects are not followed. Takes at most `seconds`, beside the time of the system's resolver.
// Throws NoAnswer.
HttpAnswer ask(const Url& server, const Trust& trust, const HttpRequest& request, double seconds);

// Why there can be no https here, and what to do; "" if there can. OpenSSL is loaded where it is
// needed: the program itself does not link it.
std::string lacking_for_https();

// Where the rows of a run are sent: run.track.
struct TrackTarget {
  std::string kind;  // "mlflow" or "trackio"
  Url url;

  std::string text() const { return kind + "=" + url.text(); }
};

// Reads "mlflow=URL,trackio=URL". Without an address, the variable that the tracker's own client
// reads tells it: MLFLOW_TRACKING_URI, TRACKIO_SERVER_URL. Throws UserError(kUsage) for another
// kind, for an address that parse_url() refuses, and for the same server twice, and
// UserError(kEnvironment) for https where there is no OpenSSL.
std::vector<TrackTarget> parse_targets(const std::string& text);

// What a tracker is told about a run.
struct TrackedRun {
  std::string id;                               // made at random when the run is first sent
  std::string name;                             // of its folder
  std::map<std::string, std::string> settings;  // of config.json: key -> value
  double started = 0;                           // unix seconds
  std::string status;                           // the line of STATUS
};

// One row: values of one step, which counts images seen.
struct TrackedRow {
  std::string file;  // where it stands: "stats.jsonl"
  int64_t step = 0;
  double time = 0;  // unix seconds
  std::vector<std::pair<std::string, double>> values;
};

// How far a file was sent. A resumed run cuts its files back, and begins them anew; that is seen by
// the last line that was sent.
struct Cursor {
  int64_t offset = 0;  // bytes
  int64_t step = -1;   // the last of the rows; those of this and earlier steps are there
  int64_t length = 0;  // of the line that ends at the offset, with its newline
  std::string hash;    // of that line
  std::string recipe;  // hash of how the metric is measured; others are not mixed with it
  int64_t maybe = -1;  // up to this step rows may be there: a request with them had no answer
  // Of a metric, which `gantrain metrics` may measure of earlier models later: the steps that were
  // sent.
  std::vector<int64_t> steps = {};
};

template <class Field>
void fields(Cursor& c, Field&& field) {
  field("offset", c.offset);
  field("step", c.step);
  field("length", c.length);
  field("hash", c.hash);
  field("recipe", c.recipe);
  field("maybe", c.maybe);
  field("steps", c.steps);
}

// The rows of a file that were not sent yet.
struct Piece {
  std::vector<TrackedRow> rows;
  Cursor after;                  // when they are sent
  int64_t of_other_recipes = 0;  // rows of a metric that is measured another way now: left out
};

// stats.jsonl or metric-*.jsonl of a run folder, read while the run may write it.
class RowFile {
 public:
  RowFile(const std::filesystem::path& run, std::string name)
      : path_(run / name), name_(std::move(name)) {}

  // Returns what follows the cursor, about so many values at most; nothing where nothing follows.
  // `began_anew` is called where the file is not the one that was read before.
  std::optional<Piece> next(const Cursor& cursor,
                            size_t most_values,
                            const std::function<void()>& began_anew) const;
  // Hash of the first line; "" while there is none.
  std::string first_line() const;

 private:
  void take(std::string_view line, Piece& piece, size_t& values) const;

  std::filesystem::path path_;
  std::string name_;
};

// Something was not sent. The text is a part of a sentence that begins with the server.
struct TrackFailure : std::runtime_error {
  enum class Kind {
    kAway,      // no answer, or one that tells of trouble: later it may work
    kBusy,      // asks to wait for `pause` seconds
    kRefused,   // wants another token
    kStranger,  // is not what it was taken for
    kGone,      // the remote run, or what it lies in, was deleted
    kTooLarge,  // these rows in one request
    kRejected,  // these rows
  };
  TrackFailure(Kind what, const std::string& text, double seconds = 0)
      : runtime_error(text), kind(what), pause(seconds) {}
  Kind kind;
  double pause;
};

// One server and its protocol. All functions throw TrackFailure. Secrets come from the environment,
// and stand in no text that is returned or thrown.
class TrackServer {
 public:
  virtual ~TrackServer() = default;
  // Finds or makes the run there, and fills `remote`, whose content is kept in track.json. `save`
  // writes it down, which happens before anything that must not be done twice.
  virtual void open(Json& remote, const TrackedRun& run, const std::function<void()>& save) = 0;
  // Sends rows. `maybe_sent`: an earlier request with them had no answer, so they may be there.
  virtual void send(const Json& remote,
                    const TrackedRun& run,
                    const std::vector<TrackedRow>& rows,
                    bool maybe_sent) = 0;
  // Tells that the run is over, as run.status says.
  virtual void close(Json& remote, const TrackedRun& run) = 0;
  // The address of the run's page.
  virtual std::string page(const Json& remote, const TrackedRun& run) const = 0;

  // Seconds that a request may take from now on.
  void allow(double seconds) { allowed_ = seconds; }

 protected:
  double allowed_ = 30;
};

std::unique_ptr<TrackServer> make_server(const TrackTarget& target);

// How a run's rows are sent.
struct TrackOptions {
  bool follow = false;  // until the run is over; else what is there now
  double wait = 30;     // seconds without success after which the rest is left; with follow: never
};

// Sends the rows of RUN/stats.jsonl and RUN/metric-*.jsonl to each of the servers, at the same
// time. RUN/track.json remembers what each has acknowledged, so that another call, also after this
// process or the server was killed at any moment, goes on where this one stopped, and every value
// of a step is there once. A server that does not answer is warned of once and tried again after
// growing pauses. Rows of steps that were sent before a resumed run went back are not sent again.
// Returns the servers that lack rows, as TrackTarget::text().
// Throws UserError(kInput) where the folder is no run or track.json is broken, and
// UserError(kUsage) where another process sends this run's rows (with follow: waits for it).
std::vector<std::string> track(const std::filesystem::path& run,
                               const std::vector<TrackTarget>& targets,
                               const TrackOptions& options);

// The servers that track.json names, with commas between; "" without one.
std::string tracked_servers(const std::filesystem::path& run);

}  // namespace gantrain
