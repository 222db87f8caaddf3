// SPDX-License-Identifier: Apache-2.0
#include "serve/server.h"

#include <httplib.h>
#include <pthread.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <mutex>

#include "config/value.h"
#include "page/pictures.h"
#include "page/run_page.h"
#include "page/run_record.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr double kViewSeconds = 5;  // for what no file tells, such as a lock that became free
constexpr size_t kPagesKept = 8;    // with pictures, some megabytes each
constexpr const char* kHtml = "text/html; charset=utf-8";

using httplib::Request;
using httplib::Response;

struct KeptView {
  std::string stamp;
  double read = 0;  // monotonic seconds
  RunView view;
};

struct KeptPage {
  std::string stamp;
  double made = 0, cost = 0;  // monotonic seconds; seconds
  std::string html;
  EmbeddedPictures pictures;
};

// Answers requests, several at a time; what was read and made is kept behind one lock, so that
// many viewers take no more of the machine than one does.
class PageServer {
 public:
  explicit PageServer(ServeOptions options)
      : options_(std::move(options)), loopback_(is_loopback(options_.host)) {}

  // Whether the request may be answered; else `response` says why not.
  bool admits(const Request& request, Response& response) const {
    if (loopback_ && !names_loopback(request.get_header_value("Host"))) {
      refuse(response, 403, "this server is called 127.0.0.1 or localhost");
      return false;
    }
    const std::string given = request.get_header_value("Authorization");
    const bool reads = request.method == "GET" || request.method == "HEAD";
    if (options_.token.empty() || !reads || authorizes(given, options_.token, /*basic=*/true))
      return true;
    response.set_header("WWW-Authenticate", "Basic realm=\"gantrain: the password is the token\"");
    refuse(response, 401, "the token is needed");
    return false;
  }

  void get(const Request& request, Response& response) {
    const std::string& path = request.path;
    if (path == "/") return get_list(request, response);
    if (path == "/page.css") return response.set_content(page_style(), "text/css; charset=utf-8");
    if (path == "/page.js")
      return response.set_content(page_script(), "text/javascript; charset=utf-8");
    if (path == "/metrics") {
      return response.set_content(prometheus_text(views(), unix_seconds()),
                                  "text/plain; version=0.0.4; charset=utf-8");
    }
    if (path == "/api/runs") return get_json(response);
    const auto run = starts_with(path, "/run/") ? find(path.substr(5)) : std::nullopt;
    if (!run) return refuse(response, 404, "there is no such page");
    get_run(*run, request, response);
  }

  // Only the body or a Bearer header may hold the token: URLs stand in logs, and a Basic header is
  // sent by a browser for pages of others, too.
  void post(const Request& request, Response& response) {
    const bool in_url = request.target.find('?') != std::string::npos;
    const bool held = authorizes(request.get_header_value("Authorization"), options_.token, false);
    const bool posted = !in_url && !options_.token.empty() && request.has_param("token") &&
                        same_secret(request.get_param_value("token"), options_.token);
    if (!held && !posted) return refuse(response, 403, "the token is missing or another one");
    for (const char* request_file : {"STOP", "SAVE"}) {
      const std::string end = "/" + lower(request_file);
      const std::string& path = request.path;
      if (!starts_with(path, "/run/") || !ends_with(path, end) || path.size() <= 5 + end.size())
        continue;
      const auto run = find(path.substr(5, path.size() - 5 - end.size()));
      if (run) return ask(*run, request_file, request, response);
    }
    refuse(response, 404, "there is no such run");
  }

 private:
  static void refuse(Response& response, int status, const std::string& reason) {
    response.status = status;
    response.set_content(reason + "\n", "text/plain; charset=utf-8");
  }

  // Names come from the folder alone: what a URL says is only compared.
  std::optional<FoundRun> find(const std::string& name) const {
    for (const FoundRun& run : find_runs(options_.folder)) {
      if (run.name == name) return run;
    }
    return std::nullopt;
  }

  const RunView& view(const FoundRun& run) {
    const std::string stamp = stamp_of(run.folder);
    const double now = monotonic_seconds();
    KeptView& kept = views_[run.name];
    const bool same = kept.stamp == stamp && kept.read != 0;
    if (same && now - kept.read <= kViewSeconds) return kept.view;
    if (same && !changed_hands(kept.view)) {
      kept.read = now;
    } else {
      kept = {stamp, now, view_of(run)};
    }
    return kept.view;
  }

  // Whether a run that has not ended is at work now and was not, or the reverse.
  static bool changed_hands(const RunView& view) {
    const bool open = view.state == "running" || view.state == "dead";
    return open && may_be_at_work(view.folder) != (view.state == "running");
  }

  std::vector<RunView> views() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<RunView> all;
    const std::vector<FoundRun> runs = find_runs(options_.folder);
    std::erase_if(views_, [&](const auto& kept) {
      return std::ranges::find(runs, kept.first, &FoundRun::name) == runs.end();
    });
    for (const FoundRun& run : runs) all.push_back(view(run));
    return all;
  }

  // The page itself, or where its script asks, ?part=STAMP, what is inside, unless that is the
  // same.
  static void answer(const WebPage& page, const Request& request, Response& response) {
    response.set_header("X-Stamp", page.stamp);
    if (!request.has_param("part")) return response.set_content(web_page(page), kHtml);
    if (request.get_param_value("part") == page.stamp) {
      response.status = 204;
    } else {
      response.set_content(page.inner, kHtml);
    }
  }

  void get_list(const Request& request, Response& response) {
    const std::string html = list_html(views(), options_.folder);
    answer({"gantrain runs", "", html, std::to_string(std::hash<std::string>()(html))},
           request,
           response);
  }

  void get_json(Response& response) {
    Json rows = Json::array();
    for (const RunView& run : views()) {
      Json row = {{"run", run.name},
                  {"status", run.status},
                  {"state", run.state},
                  {"verdict", run.verdict.word}};
      if (run.kimg) row["kimg"] = *run.kimg;
      if (run.target_kimg) row["target_kimg"] = *run.target_kimg;
      if (run.images_per_second) row["images_per_second"] = *run.images_per_second;
      if (run.seconds_to_go) row["seconds_to_go"] = *run.seconds_to_go;
      for (const auto& [name, at] : run.metrics) row["metrics"][name] = at.second;
      rows.push_back(row);
    }
    response.set_content(json_line(rows) + "\n", "application/json");
  }

  void get_run(const FoundRun& run, const Request& request, Response& response) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const RunView& seen = view(run);
    if (pages_.size() >= kPagesKept && pages_.count(run.name) == 0) pages_.clear();
    KeptPage& kept = pages_[run.name];
    const std::string stamp = stamp_of(run.folder) + seen.state;
    const double now = monotonic_seconds();
    // A page may take 5 % of a processor.
    if (kept.html.empty() || (kept.stamp != stamp && now - kept.made > 20 * kept.cost)) {
      kept.html = run_page_body(read_run_record(run.folder), kept.pictures);
      kept.stamp = stamp;
      kept.made = monotonic_seconds();
      kept.cost = kept.made - now;
    }
    const std::string said =
        request.has_param("asked") ? "asked; the run obeys once its iteration ends" : "";
    answer({seen.verdict.word + " \u00b7 " + run.name,
            run_header(run.name, seen.running(), !options_.token.empty(), said),
            kept.html,
            kept.stamp},
           request,
           response);
  }

  void ask(const FoundRun& run,
           const char* request_file,
           const Request& request,
           Response& response) {
    // A file that nobody takes away would stop the next session at once.
    if (view_of(run).state != "running") return refuse(response, 409, "nobody is at work there");
    try {
      write_file(run.folder / request_file, "");
    } catch (const UserError& e) {
      return refuse(response, 500, e.what());
    }
    info("{}    asked for in {}", request_file, run.folder.string());
    if (request.get_header_value("Accept").find("text/html") != std::string::npos) {
      response.set_redirect("/run/" + percent_encoded(run.name, "/") + "?asked", 303);
    } else {
      response.set_content(fmt::format("{} is asked for\n", request_file),
                           "text/plain; charset=utf-8");
    }
  }

  ServeOptions options_;
  bool loopback_;
  std::mutex mutex_;
  std::map<std::string, KeptView> views_;
  std::map<std::string, KeptPage> pages_;
};

// Pages load nothing from elsewhere and run no script but the server's own.
const httplib::Headers& safe_headers() {
  static const httplib::Headers headers = {
      {"Content-Security-Policy",
       "default-src 'none'; img-src data:; style-src 'self' 'unsafe-inline'; script-src 'self'; "
       "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cache-Control", "no-store"}};
  return headers;
}

// A whole request for the HTTP library, and its answer. Releases ask for more or fewer of these
// functions, which are no overrides then.
class Exchange : public httplib::Stream {
 public:
  explicit Exchange(const std::string& request) : request_(request) {}
  // NOLINTBEGIN(modernize-use-override)
  bool is_readable() const { return true; }
  bool is_writable() const { return true; }
  ssize_t read(char* to, size_t size) {
    const size_t bytes = request_.copy(to, size, read_);
    read_ += bytes;
    return static_cast<ssize_t>(bytes);
  }
  ssize_t write(const char* from, size_t size) {
    answer.append(from, size);
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string&, int&) const {}
  void get_local_ip_and_port(std::string&, int&) const {}
  socket_t socket() const { return INVALID_SOCKET; }
  // NOLINTEND(modernize-use-override)

  std::string answer;

 private:
  const std::string& request_;
  size_t read_ = 0;
};

// The library reads requests, chooses handlers and writes answers; it sees no connection.
class PageLibrary : public httplib::Server {
 public:
  std::string answer(const std::string& request) {
    Exchange exchange(request);
    // The library's own way to a body leads through regular expressions, which take all of a small
    // stack where a path or a field is long.
    process(*this, exchange, [&request](Request& seen) {
      httplib::detail::parse_query_text(request.substr(request.find("\r\n\r\n") + 4), seen.params);
    });
    return std::move(exchange.answer);
  }
  int listening() const { return svr_sock_; }

 private:
  // Newer releases of the library (Debian 13 has 0.18) want the addresses of both ends.
  template <class Library>
  static void process(Library& library,
                      Exchange& exchange,
                      const std::function<void(Request&)>& read_body) {
    bool closed = false;
    if constexpr (requires { library.process_request(exchange, true, closed, read_body); }) {
      library.process_request(exchange, /*close_connection=*/true, closed, read_body);
    } else {
      library.process_request(exchange, "", 0, "", 0, /*close_connection=*/true, closed, read_body);
    }
  }
};

void set_up(httplib::Server& server, PageServer& pages) {
  // The library's own choice, SO_REUSEPORT, lets two servers share a port without a word.
  server.set_socket_options([](int socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_default_headers(safe_headers());
  // The library would send the error's text to the client.
  server.set_exception_handler([](const Request& request, Response& response, const auto&) {
    warn("serve   {} cannot be shown", request.path);
    response.status = 500;
  });
  server.set_pre_routing_handler([&pages](const Request& request, Response& response) {
    if (pages.admits(request, response)) {
      if (request.method == "POST") {
        pages.post(request, response);
      } else if (request.method == "GET" || request.method == "HEAD") {
        pages.get(request, response);
      } else {
        response.status = 405;
      }
    }
    return httplib::Server::HandlerResponse::Handled;
  });
}

// The port, after the server listens on it.
int listen_on(httplib::Server& server, const ServeOptions& options) {
  errno = 0;
  int port = static_cast<int>(options.port);
  if (port == 0) {
    port = server.bind_to_any_port(options.host.c_str());
  } else if (!server.bind_to_port(options.host.c_str(), port)) {
    port = -1;
  }
  if (port > 0) return port;
  fail(Exit::kEnvironment,
       "serve cannot listen on {}, port {}: {}; --port 0 takes a free port",
       options.host,
       options.port,
       errno == 0 || errno == EINVAL ? "no such address" : errno_text());
}

}  // namespace

void serve(const ServeOptions& options) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // in threads that make pages, too
  const int end = ::signalfd(-1, &ends, SFD_CLOEXEC);
  if (end < 0) fail(Exit::kEnvironment, "serve has no descriptor left: {}", errno_text());
  PageServer pages(options);
  PageLibrary library;
  set_up(library, pages);
  const int port = listen_on(library, options);
  const bool v6 = options.host.find(':') != std::string::npos;
  fmt::print("http://{}:{}/\n", v6 ? "[" + options.host + "]" : options.host, port);
  std::fflush(stdout);
  const bool all_ended =
      answer_requests(library.listening(), end, [&library](const std::string& request) {
        return library.answer(request);
      });
  if (!all_ended) std::_Exit(0);  // a thread waits for a file system that does not answer
  ::close(library.listening());
  ::close(end);
}

}  // namespace gantrain
