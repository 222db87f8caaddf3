// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "page/run_page.h"
#include "util/field.h"

namespace gantrain {

// Writes a new token of 128 bits to a file that only this user can read, in
// $XDG_RUNTIME_DIR/gantrain or else in the cache folder, and returns the file's path. Throws
// UserError(kEnvironment) where neither is there, UserError(kDisk) where it cannot be written.
std::filesystem::path write_random_token();

// Returns the first line of a file as a token. Throws UserError(kInput) where the file cannot be
// read, or its first line has less than 16 characters or any but visible ASCII ones.
std::string token_in(const std::filesystem::path& file);

// Whether two texts are equal, in a time that does not tell where they differ.
bool same_secret(const std::string& a, const std::string& b);

// Whether nobody but this machine reaches the address: 127.0.0.0/8, ::1, localhost.
bool is_loopback(const std::string& address);

// Whether a request's Host header names this machine as is_loopback() means it, with or without a
// port. A page of another site whose name is made to point to 127.0.0.1 ("DNS rebinding") has its
// own name there.
bool names_loopback(const std::string& host_header);

// Whether an Authorization header holds the token: "Bearer TOKEN", or, with `basic`, the password
// of "Basic ..." (RFC 7617), which browsers ask for and then send by themselves.
bool authorizes(const std::string& header, const std::string& token, bool basic);

// A run folder below the one that is served.
struct FoundRun {
  std::string name;  // its path below the folder, "a/b"; the folder's own name if it is the run
  std::filesystem::path folder;
};

// Returns the runs of a folder by name: itself if it is one, else those at most four levels below.
// Links and hidden folders are not followed, so that nothing outside is found.
std::vector<FoundRun> find_runs(const std::filesystem::path& root);

// What a line of the list, and the metrics for Prometheus, tell about a run.
struct RunView {
  std::string name;
  std::filesystem::path folder;
  std::string status;  // the line of STATUS
  std::string state;   // "running", "done", "stopped", "failed", "ended", "dead", "unknown"
  Verdict verdict;
  std::optional<double> kimg, target_kimg, images_per_second, seconds_to_go;
  std::optional<double> last_tick;                           // seconds since 1970
  std::optional<double> ranks;                               // of an elastic run
  std::optional<double> slowest_rank, slowest_behind;        // as Ranks/slowest and Ranks/behind
  std::map<std::string, double> losses;                      // the last ones, "G/loss"
  std::map<std::string, std::pair<double, double>> metrics;  // the last ones: kimg, value
  bool running() const { return state == "running"; }
};

RunView view_of(const FoundRun& run);

// Returns a text that changes when a file of the run does from which a page is made.
std::string stamp_of(const std::filesystem::path& run_folder);

// The list of runs as HTML. `folder` is what is said to have no runs where it has none.
std::string list_html(const std::vector<RunView>& runs, const std::string& folder);

// Returns a whole page around what is refreshed, `inner`. It takes style and script from the server
// (/page.css, /page.js); the script asks for `inner` anew where `stamp` is no longer up to date.
// `above` is HTML that stays.
struct WebPage {
  std::string title, above, inner, stamp;
};
std::string web_page(const WebPage& page);

// What stands above a run: the way back and, of a run at work, SAVE and STOP with a field for the
// token, or how to have them where the server has no token. `said` is shown, too.
std::string run_header(const std::string& name,
                       bool running,
                       bool has_token,
                       const std::string& said);

std::string page_style();
std::string page_script();

// Returns the runs' numbers in Prometheus' text format, version 0.0.4: one HELP and one TYPE line a
// metric, then a line for each run that has it. `now` is in seconds since 1970.
std::string prometheus_text(const std::vector<RunView>& runs, double now);

// What strangers may use of the server. Whoever needs more is refused, or makes room for others.
struct ConnectionLimits {
  size_t head_bytes = 16 * 1024, head_lines = 100, line_bytes = 4096, body_bytes = 4096;
  std::ptrdiff_t connections = 128, per_peer = 32;  // loopback is one peer
  size_t answer_bytes = 64 << 20;                   // of all answers that wait to be sent
  double request_seconds = 5;                       // from connecting to a request's last byte
  double idle_seconds = 10;                         // in which no byte of an answer can be sent
};

// Answers HTTP requests, one a connection, on a bound socket until the descriptor `end` is
// readable. `answer` makes an answer of a request, both as they are sent, in several threads at a
// time, and must not throw. It sees requests within the limits only, which have no
// Transfer-Encoding, and of their fields Host, Authorization, Accept, Accept-Encoding, Content-Type
// and Content-Length. Returns false where an answer is still being made 2 seconds after the end:
// its thread goes on, so that the process has to end.
bool answer_requests(int listening,
                     int end,
                     std::function<std::string(const std::string&)> answer,
                     const ConnectionLimits& limits = {});

struct ServeOptions {
  std::string folder;              // of runs, or a run's own
  std::string host = "127.0.0.1";  // address to listen on
  int64_t port = 8300;             // 0: the kernel chooses
  std::string token;               // "": no buttons, and only this machine's users may look
};

template <class Field>
void fields(ServeOptions& o, Field&& field) {
  field("folder", o.folder, said("RUNS"), "a folder of runs, or a run folder");
  field("host", o.host, "address to listen on; others need a token (127.0.0.1)");
  field("port", o.port, "port to listen on; 0: a free one (8300)");
  field("token",
        o.token,
        "auto: one is made, in a file that only you can read; FILE: its first line. Reading needs "
        "it, and SAVE and STOP work");
}

// Serves pages of the folder's runs until SIGINT or SIGTERM, and prints its address to standard
// output first:
//   GET /                the list of runs
//   GET /run/NAME        a run's page, which follows the run
//   GET /api/runs        the list as JSON
//   GET /metrics         all runs' numbers for Prometheus
//   POST /run/NAME/save, /run/NAME/stop   makes the file that a run at work looks for; the token is
//                        the form's field, or "Authorization: Bearer TOKEN"
// Where there is a token every request needs it. On a loopback address requests must name such a
// host, and without a token every user of the machine can read the pages. Nothing but these pages
// is read or written. SIGTERM ends it within 3 seconds whatever clients and files do. Throws
// UserError(kEnvironment) where it cannot listen.
void serve(const ServeOptions& options);

}  // namespace gantrain
