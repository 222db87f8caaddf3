// SPDX-License-Identifier: Apache-2.0
// MLflow's REST (https://mlflow.org/docs/latest/api_reference/rest-api.html) and Trackio's (its
// package's server.py, HTTP API 1), as real servers of MLflow 3.17 and Trackio 0.43 answer.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "config/config.h"
#include "track/track.h"
#include "util/error.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

using Kind = TrackFailure::Kind;

constexpr size_t kMostMetrics = 1000;  // of MLflow in one request
constexpr size_t kMostParams = 100;
constexpr size_t kMostOfParam = 500, kMostOfName = 250;  // bytes; servers before 2.8 refuse more
constexpr double kLongestAsked = 600;                    // that a server may ask for

// Seconds; a date counts as none, so that the usual pause is made.
double retry_after(const HttpAnswer& answer) {
  const auto seconds = parse_double(answer.header("retry-after"));
  return seconds && std::isfinite(*seconds) ? std::clamp(*seconds, 0.0, kLongestAsked) : 0;
}

// Sends requests with a secret, and makes failures of answers.
class Api {
 public:
  Api(TrackTarget target, std::string secrets_of)
      : target_(std::move(target)), secrets_of_(std::move(secrets_of)) {}

  // A variable whose value is a secret.
  std::string secret(const char* name) {
    std::string value = trim(environment_variable(name));
    const bool fits = std::ranges::all_of(value, [](char c) { return c >= ' ' && c != 0x7f; });
    if (!fits) value.clear();  // it would break a header
    if (!value.empty()) secrets_.push_back(value);
    return value;
  }
  void set_header(const std::string& name, const std::string& scheme, const std::string& secret) {
    request_.headers[name] = scheme + secret;
    secrets_.push_back(secret);
  }
  void set_trust(Trust trust) { trust_ = std::move(trust); }

  // The answer's JSON.
  Json call(const std::string& method, const std::string& path, const Json& body, double seconds) {
    HttpRequest request = request_;
    request.method = method;
    request.path = path;
    request.headers["Content-Type"] = "application/json";
    if (method != "GET") request.body = json_line(body);
    HttpAnswer answer;
    try {
      answer = ask(target_.url, trust_, request, seconds);
    } catch (const NoAnswer& e) {
      throw TrackFailure(Kind::kAway, e.what());
    }
    const Json json = parse_foreign(answer.body);
    if (answer.status >= 200 && answer.status < 300 && json.is_object()) return json;
    throw_failure(answer, json);
  }

  // What a server says of itself, fit to be shown.
  std::string shown(std::string text) const {
    for (const std::string& secret : secrets_) {
      for (size_t at = 0; (at = text.find(secret)) != std::string::npos;)
        text.replace(at, secret.size(), "***");
    }
    return printable(text.substr(0, text.find('\n')), 200);
  }

 private:
  static std::string field(const Json& json, const char* name) {
    return json.is_object() && json.contains(name) && json[name].is_string()
               ? json[name].get<std::string>()
               : "";
  }

  [[noreturn]] void throw_failure(const HttpAnswer& answer, const Json& json) const {
    const int status = answer.status;
    const std::string code = field(json, "error_code");
    std::string said = field(json, "message");
    said = shown(said.empty() ? field(json, "error") : said);
    const std::string why = said.empty() ? "" : ": " + said;
    if (status >= 300 && status < 400) {
      const std::string to = answer.header("location");  // a query may hold a secret
      throw TrackFailure(Kind::kStranger,
                         fmt::format("sends on to {}, which is not followed with a token: give the "
                                     "address that answers itself",
                                     shown(to.substr(0, to.find_first_of("?#")))));
    }
    const bool wants_token = said.find("write_token") != std::string::npos ||
                             code == "PERMISSION_DENIED" || code == "UNAUTHENTICATED";
    if (status == 401 || status == 403 || (status == 400 && wants_token)) {
      throw TrackFailure(Kind::kRefused,
                         fmt::format("refuses what is sent ({}{}); its token comes from the "
                                     "environment: {}",
                                     status,
                                     why,
                                     secrets_of_));
    }
    if (status == 429 || (status == 503 && !answer.header("retry-after").empty()))
      throw TrackFailure(
          Kind::kBusy, fmt::format("asks to wait ({}{})", status, why), retry_after(answer));
    if (status == 413 || said.find("must be at most") != std::string::npos)
      throw TrackFailure(Kind::kTooLarge, fmt::format("refuses so many rows ({}{})", status, why));
    if (status >= 500 || status == 408)
      throw TrackFailure(Kind::kAway, fmt::format("fails ({}{})", status, why));
    if (code == "RESOURCE_DOES_NOT_EXIST")
      throw TrackFailure(Kind::kGone, fmt::format("knows the run no more ({}{})", status, why));
    if (code == "RESOURCE_ALREADY_EXISTS") throw TrackFailure(Kind::kRejected, code);
    if (status >= 400 && json.is_object() && !said.empty() && status != 404)
      throw TrackFailure(Kind::kRejected, fmt::format("rejects rows ({}{})", status, why));
    throw TrackFailure(Kind::kStranger,
                       fmt::format("is no {} server: it answers {} with {}",
                                   target_.kind,
                                   status,
                                   json.is_discarded() ? "something that is no JSON, such as a page"
                                                       : "other JSON"));
  }

  TrackTarget target_;
  std::string secrets_of_;
  Trust trust_;
  HttpRequest request_;
  std::vector<std::string> secrets_;
};

// Names that MLflow takes: letters, digits, "_-. :/" and no empty, "." or ".." part.
std::string mlflow_name(const std::string& name) {
  std::string out;
  for (const std::string& part : split(name, '/')) {
    std::string clean = part;
    for (char& c : clean) {
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 &&
          std::string_view("_-. ").find(c) == std::string_view::npos)
        c = '_';
    }
    if (clean.empty() || clean == "." || clean == "..") clean = "_";
    out += (out.empty() ? "" : "/") + clean;
  }
  return out.substr(0, kMostOfName);
}

int64_t milliseconds(double seconds) { return static_cast<int64_t>(std::floor(seconds * 1e3)); }

class Mlflow : public TrackServer {
 public:
  explicit Mlflow(const TrackTarget& target)
      : url_(target.url),
        api_(target, "MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and _PASSWORD") {
    const std::string token = api_.secret("MLFLOW_TRACKING_TOKEN");
    const std::string user = api_.secret("MLFLOW_TRACKING_USERNAME");
    const std::string password = api_.secret("MLFLOW_TRACKING_PASSWORD");
    if (!user.empty()) {
      api_.set_header("Authorization", "Basic ", base64(user + ":" + password));
    } else if (!token.empty()) {
      api_.set_header("Authorization", "Bearer ", token);
    }
    const std::string own = environment_variable("MLFLOW_TRACKING_SERVER_CERT_PATH");
    api_.set_trust({lower(environment_variable("MLFLOW_TRACKING_INSECURE_TLS")) != "true",
                    own.empty() ? environment_variable("REQUESTS_CA_BUNDLE") : own});
  }

  void open(Json& remote, const TrackedRun& run, const std::function<void()>& save) override {
    if (!remote.contains("experiment")) {
      remote["experiment"] = experiment();
      save();
    }
    if (!remote.contains("run")) {
      remote["run"] = find_or_make_run(remote, run, save);
      save();
    }
    if (!remote.value("has_settings", false)) {
      send_settings(remote, run);
      remote["has_settings"] = true;
      save();
    }
    if (run.status.empty() || starts_with(run.status, "running")) update(remote, "RUNNING", 0);
  }

  void send(const Json& remote,
            const TrackedRun&,
            const std::vector<TrackedRow>& rows,
            bool maybe_sent) override {
    Json metrics = Json::array();
    for (const TrackedRow& row : rows) {
      for (const auto& [name, value] : row.values) {
        metrics.push_back({{"key", mlflow_name(name)},
                           {"value", value},
                           {"timestamp", milliseconds(row.time)},
                           {"step", row.step}});
      }
    }
    if (maybe_sent) metrics = without_known(remote, metrics);
    for (size_t first = 0; first < metrics.size(); first += kMostMetrics) {
      Json part = Json::array();
      for (size_t i = first; i < std::min(metrics.size(), first + kMostMetrics); ++i)
        part.push_back(metrics[i]);
      log_batch(remote, "metrics", part);
    }
  }

  void close(Json& remote, const TrackedRun& run) override {
    const bool done = starts_with(run.status, "done");
    const bool failed = starts_with(run.status, "failed") || starts_with(run.status, "ended");
    update(remote, done ? "FINISHED" : failed ? "FAILED" : "KILLED", unix_seconds());
  }

  std::string page(const Json& remote, const TrackedRun&) const override {
    return fmt::format("{}/#/experiments/{}/runs/{}",
                       url_.text(),
                       remote.value("experiment", ""),
                       remote.value("run", ""));
  }

 private:
  Json post(const std::string& path, const Json& body) {
    return api_.call("POST", "/api/2.0/mlflow/" + path, body, allowed_);
  }
  Json get(const std::string& path) {
    return api_.call("GET", "/api/2.0/mlflow/" + path, {}, allowed_);
  }

  // The value of a text field of a foreign answer.
  static std::string text_in(const Json& json, const char* pointer) {
    const Json::json_pointer place(pointer);
    if (json.contains(place) && json[place].is_string()) return json[place].get<std::string>();
    throw TrackFailure(Kind::kStranger,
                       "is no mlflow server: its answer lacks " + std::string(pointer));
  }

  std::string experiment() {
    const std::string id = environment_variable("MLFLOW_EXPERIMENT_ID");
    if (!id.empty()) return id;
    std::string name = environment_variable("MLFLOW_EXPERIMENT_NAME");
    if (name.empty()) name = "gantrain";
    const std::string query = "experiments/get-by-name?experiment_name=" + percent_encoded(name);
    try {
      return active_experiment(get(query), name);
    } catch (const TrackFailure& e) {
      if (e.kind != Kind::kGone || is_deleted_) throw;
    }
    try {
      return text_in(post("experiments/create", {{"name", name}}), "/experiment_id");
    } catch (const TrackFailure& e) {
      if (e.kind != Kind::kRejected) throw;
      return active_experiment(get(query), name);  // somebody else has made it meanwhile
    }
  }

  std::string active_experiment(const Json& answer, const std::string& name) {
    is_deleted_ = answer.value("/experiment/lifecycle_stage"_json_pointer, "") == "deleted";
    if (is_deleted_) {
      throw TrackFailure(Kind::kGone,
                         fmt::format("has the experiment {} among what was deleted: restore it, or "
                                     "name another by MLFLOW_EXPERIMENT_NAME",
                                     printable(name)));
    }
    return text_in(answer, "/experiment/experiment_id");
  }

  // A run that was asked for by a process that was killed before the answer came is found by its
  // tag. The server may still be making it, so for a while none is made in its place.
  std::string find_or_make_run(Json& remote,
                               const TrackedRun& run,
                               const std::function<void()>& save) {
    constexpr double kMakingSeconds = 5;
    if (remote.contains("asked_at")) {
      const Json found = post("runs/search",
                              {{"experiment_ids", Json::array({remote["experiment"]})},
                               {"filter", "tags.`gantrain.id` = '" + run.id + "'"},
                               {"run_view_type", "ALL"},
                               {"max_results", 1}});
      if (found.contains("/runs/0"_json_pointer)) return text_in(found, "/runs/0/info/run_id");
      const double since = unix_seconds() - remote["asked_at"].get<double>();
      if (since >= 0 && since < kMakingSeconds) {
        throw TrackFailure(
            Kind::kBusy, "may still be making the run that was asked for", kMakingSeconds - since);
      }
    }
    remote["asked_at"] = unix_seconds();
    save();
    Json tags = Json::array();
    const auto tag = [&](const char* key, const std::string& value) {
      tags.push_back({{"key", key}, {"value", value}});
    };
    tag("gantrain.id", run.id);
    tag("gantrain.version", kVersion);
    tag("gantrain.host", host_name());
    tag("mlflow.source.name", "gantrain");
    tag("mlflow.source.type", "LOCAL");
    const Json answer = post("runs/create",
                             {{"experiment_id", remote["experiment"]},
                              {"run_name", run.name},
                              {"start_time", milliseconds(run.started)},
                              {"tags", tags}});
    return text_in(answer, "/run/info/run_id");
  }

  // Parameters cannot be changed, so these are what the run began with; the same ones twice are
  // taken without a word.
  void send_settings(const Json& remote, const TrackedRun& run) {
    Json part = Json::array();
    for (const auto& [key, value] : run.settings) {
      part.push_back({{"key", mlflow_name(key)}, {"value", value.substr(0, kMostOfParam)}});
      if (part.size() < kMostParams) continue;
      log_batch(remote, "params", part);
      part = Json::array();
    }
    if (!part.empty()) log_batch(remote, "params", part);
  }

  void log_batch(const Json& remote, const char* what, const Json& part) {
    try {
      post("runs/log-batch", {{"run_id", remote["run"]}, {what, part}});
    } catch (const TrackFailure& e) {
      if (e.kind == Kind::kRejected) check_active(remote);
      throw;
    }
  }

  // A run that was deleted takes nothing, which is no fault of the rows.
  void check_active(const Json& remote) {
    const Json run = get("runs/get?run_id=" + percent_encoded(remote.value("run", "")));
    if (run.value("/run/info/lifecycle_stage"_json_pointer, "active") == "active") return;
    throw TrackFailure(Kind::kGone, "has the run among what was deleted");
  }

  void update(Json& remote, const char* status, double end) {
    if (remote.value("status", "") == status) return;
    Json body = {{"run_id", remote["run"]}, {"status", status}};
    if (end > 0) body["end_time"] = milliseconds(end);
    try {
      post("runs/update", body);
      remote["status"] = status;
    } catch (const TrackFailure& e) {
      if (e.kind == Kind::kRejected) check_active(remote);
      throw;
    }
  }

  // Leaves out what the server has. A server with a database would store it once anyway, one with
  // files would not.
  Json without_known(const Json& remote, const Json& metrics) {
    std::map<std::string, std::set<int64_t>> known;
    Json left = Json::array();
    for (const Json& metric : metrics) {
      const std::string key = metric["key"];
      if (known.count(key) == 0) known[key] = steps_of(remote, key);
      if (known[key].count(metric["step"].get<int64_t>()) == 0) left.push_back(metric);
    }
    return left;
  }

  std::set<int64_t> steps_of(const Json& remote, const std::string& key) {
    std::set<int64_t> steps;
    std::string page;
    do {
      const Json answer = get(fmt::format("metrics/get-history?run_id={}&metric_key={}{}",
                                          percent_encoded(remote.value("run", "")),
                                          percent_encoded(key),
                                          page));
      for (const Json& each : answer.value("metrics", Json::array())) {
        const Json step = each.value("step", Json(0));  // 64-bit numbers come as text from some
        steps.insert(step.is_string()           ? parse_int(step.get<std::string>()).value_or(0)
                     : step.is_number_integer() ? step.get<int64_t>()
                                                : 0);
      }
      page = answer.value("next_page_token", "");
      if (!page.empty()) page = "&page_token=" + percent_encoded(page);
    } while (!page.empty());
    return steps;
  }

  Url url_;
  Api api_;
  bool is_deleted_ = false;
};

// Trackio stores a row whose log_id it has once, so nothing has to be read back; and it makes a run
// when its first row comes.
class Trackio : public TrackServer {
 public:
  explicit Trackio(const TrackTarget& target)
      : url_(target.url), api_(target, "TRACKIO_WRITE_TOKEN, or HF_TOKEN for a Space") {
    const std::string write_token = api_.secret("TRACKIO_WRITE_TOKEN");
    if (!write_token.empty()) api_.set_header("X-Trackio-Write-Token", "", write_token);
    // As its own client, which gives the account's token to no other server.
    const std::string account = api_.secret("HF_TOKEN");
    if (!account.empty() && ends_with(lower(url_.host), ".hf.space") && url_.tls)
      api_.set_header("Authorization", "Bearer ", account);
    api_.set_trust({true, environment_variable("REQUESTS_CA_BUNDLE")});
    project_ = environment_variable("TRACKIO_PROJECT");
    if (project_.empty()) project_ = "gantrain";
  }

  void open(Json& remote, const TrackedRun&, const std::function<void()>& save) override {
    const Json version = api_.call("GET", "/version", {}, allowed_);
    if (version.value("api_version", Json()) != 1) {
      throw TrackFailure(Kind::kStranger, "is no trackio server that is known here: HTTP API 1 is");
    }
    if (remote.contains("project")) {
      project_ = remote.value("project", project_);
      return;
    }
    remote["project"] = project_;
    save();
  }

  void send(const Json&,
            const TrackedRun& run,
            const std::vector<TrackedRow>& rows,
            bool /*maybe_sent*/) override {
    Json logs = Json::array();
    for (const TrackedRow& row : rows) {
      Json metrics = Json::object();
      for (const auto& [name, value] : row.values) metrics[name] = value;
      logs.push_back({{"project", project_},
                      {"run", run.name},
                      {"run_id", run.id},
                      {"metrics", metrics},
                      {"step", row.step},
                      {"log_id", fmt::format("{}-{}-{}", run.id, row.file, row.step)}});
    }
    logs.front()["config"] = run.settings;  // replaces what was sent before
    const Json arguments = {{"logs", logs}, {"hf_token", nullptr}};
    api_.call("POST", "/api/bulk_log", {{"kwargs", arguments}}, allowed_);
  }

  void close(Json&, const TrackedRun&) override {}

  std::string page(const Json&, const TrackedRun&) const override {
    return fmt::format("{}/?project={}", url_.text(), percent_encoded(project_));
  }

 private:
  Url url_;
  Api api_;
  std::string project_;
};

}  // namespace

std::vector<TrackTarget> parse_targets(const std::string& text) {
  std::vector<TrackTarget> targets;
  for (const std::string& part : split(text, ',')) {
    if (trim(part).empty()) continue;
    const size_t equals = part.find('=');
    const std::string kind = lower(trim(part.substr(0, equals)));
    if (kind == "wandb" || kind == "w&b") {
      fail(Exit::kUsage,
           "--track {}: W&B reads the run's TensorBoard files by its own program, after or during "
           "the run: wandb sync --sync-tensorboard RUN (gantrain help track)",
           kind);
    }
    if (kind.find_first_of(":/@?") != std::string::npos)  // it may hold a secret
      fail(Exit::kUsage, "--track: an address needs its kind: mlflow=URL or trackio=URL");
    if (kind != "mlflow" && kind != "trackio") {
      fail(Exit::kUsage,
           "--track {}: there are mlflow=URL and trackio=URL{}",
           kind,
           did_you_mean(kind, {"mlflow", "trackio"}));
    }
    const char* variable = kind == "mlflow" ? "MLFLOW_TRACKING_URI" : "TRACKIO_SERVER_URL";
    const std::string flag = "--track " + kind;
    std::string address = equals == std::string::npos ? "" : trim(part.substr(equals + 1));
    const bool named = !address.empty();
    if (!named) address = environment_variable(variable);
    if (address.empty())
      fail(Exit::kUsage, "{}=URL: no address, and {} is not set", flag, variable);
    TrackTarget target{kind, parse_url(named ? flag : flag + ", " + variable, address)};
    if (target.url.tls && !lacking_for_https().empty())
      fail(Exit::kEnvironment, "{}: {}", flag, lacking_for_https());
    for (const TrackTarget& other : targets) {
      if (other.text() == target.text()) fail(Exit::kUsage, "{}: twice the same server", flag);
    }
    targets.push_back(target);
  }
  return targets;
}

std::unique_ptr<TrackServer> make_server(const TrackTarget& target) {
  if (target.kind == "mlflow") return std::make_unique<Mlflow>(target);
  return std::make_unique<Trackio>(target);
}

}  // namespace gantrain
