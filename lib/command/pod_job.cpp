// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <regex>

#include "command/jobs.h"
#include "config/value.h"
#include "util/error.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

bool is_set(const PodJob& job) { return job.kind != "job"; }

// Of the container that trains. Kubeflow knows it by this name.
std::string container_name(const PodJob& job) {
  return job.kind == "trainjob" ? "node" : "gantrain";
}

// --- YAML

// Words that YAML 1.1 or 1.2 reads as something else than text.
bool is_special_word(const std::string& text) {
  static const std::vector<std::string> words = {
      "y", "n", "yes", "no", "on", "off", "true", "false", "null"};
  return contains(words, lower(text));
}

// Whether the text means itself wherever it stands: a word, a path, an image, a flag.
bool is_plain(const std::string& text) {
  const size_t begin = starts_with(text, "--") ? 2 : 0;
  const auto letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  if (text.size() <= begin || is_special_word(text) || text.back() == ':') return false;
  if (!letter(text[begin]) && (begin > 0 || text[0] != '/')) return false;
  return std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-_./:").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// One character between double quotes. What YAML does not let stand there, or what an editor would
// not show, is written by its number.
std::string quoted_character(std::string_view one) {
  if (one == "\"" || one == "\\") return "\\" + std::string(one);
  if (one == "\n") return "\\n";
  if (one == "\t") return "\\t";
  const auto first = static_cast<unsigned char>(one[0]);
  if (one.size() == 1)
    return first < ' ' || first == 0x7f ? fmt::format("\\x{:02x}", first) : std::string(one);
  uint32_t code = first & (0xffU >> (one.size() + 1));
  for (const char c : one.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3fU);
  const bool hidden = code < 0xa0 || code == 0xad || code == 0x61c ||
                      (code >= 0x2000 && code <= 0x200f) || (code >= 0x2028 && code <= 0x202f) ||
                      (code >= 0x2060 && code <= 0x206f) || code == 0xfeff ||
                      (code >= 0xfff0 && code <= 0xffff) || (code & 0xfffeU) == 0xfffe;
  if (!hidden) return std::string(one);
  return code > 0xffff ? fmt::format("\\U{:08x}", code) : fmt::format("\\u{:04x}", code);
}

std::string scalar(const Json& value) {
  if (value.is_array()) return "[]";
  if (value.is_object()) return "{}";
  if (!value.is_string()) return value.dump();
  const auto text = value.get<std::string>();
  if (is_plain(text)) return text;
  std::string out = "\"";
  for (size_t at = 0, size = 0; at < text.size(); at += size) {
    size = utf8_size(text, at);
    out += quoted_character(std::string_view(text).substr(at, size));
  }
  return out + "\"";
}

// The block style of kubectl: entries of objects and lists each on lines of their own.
std::string yaml(const Json& tree, const std::string& indent = "") {
  std::string out;
  const auto add = [&](const std::string& head, const Json& value, const std::string& deeper) {
    const bool block = value.is_structured() && !value.empty();
    out += block ? head + "\n" + yaml(value, deeper) : head + " " + scalar(value) + "\n";
  };
  if (tree.is_object()) {
    for (const auto& [key, value] : tree.items())
      add(indent + scalar(key) + ":", value, value.is_array() ? indent : indent + "  ");
    return out;
  }
  for (const Json& item : tree) {
    if (!item.is_structured() || item.empty()) {
      add(indent + "-", item, "");
    } else {
      const std::string block = yaml(item, indent + "  ");
      out += indent + "- " + block.substr(indent.size() + 2);
    }
  }
  return out;
}

// --- what Kubernetes allows

bool is_lower_word(std::string_view text) {
  const auto edge = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !text.empty() && edge(text.front()) && edge(text.back()) &&
         std::ranges::all_of(text, [&](char c) { return edge(c) || c == '-'; });
}

// RFC 1123: a label, or with `dots` several of them.
void check_name(const std::string& flag, const std::string& name, bool dots, size_t longest) {
  const std::vector<std::string> parts =
      dots ? split(name, '.') : std::vector<std::string>{std::string(name)};
  if (name.size() <= longest && std::ranges::all_of(parts, is_lower_word)) return;
  fail(Exit::kUsage,
       "{} {}: a name of up to {} lower-case letters, digits and -{}, with a letter or digit at "
       "both ends, is needed",
       flag,
       shell_quote(name),
       longest,
       dots ? " and ." : "");
}

// What a pod's name has behind the job's; Kubernetes lets it have 63 letters.
std::string longest_suffix(const PodJob& job) {
  return fmt::format("{}-{}-12345", is_set(job) ? "-node-0" : "", job.nodes - 1);
}

void check_job_name(const PodJob& job) {
  const std::string& name = job.name;
  check_name("--name", name, false, 63 - longest_suffix(job).size());
  const bool is_service = is_set(job) || job.nodes > 1;
  if (is_service && std::isdigit(static_cast<unsigned char>(name[0])) != 0)
    fail(Exit::kUsage, "--name {}: it names a Service, too: begin with a letter", name);
}

void check_quantity(const std::string& flag, const std::string& text) {
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  static const std::vector<std::string> units = {"", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"};
  const bool fits = end > 0 && end < 16 && contains(units, text.substr(end));
  if (!fits || text.find_first_not_of('0') == end)
    fail(Exit::kUsage, "{} {}: a size such as 64Gi is needed", flag, shell_quote(text));
}

// Names of images: [HOST[:PORT]/]NAME[/NAME...][:TAG][@DIGEST] (github.com/distribution/reference).
void check_image(const std::string& image) {
  static const std::string host = R"((?:\[[0-9a-fA-F:]+\]|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*))";
  static const std::string name = R"([a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)";
  static const std::regex form("(?:" + host + "(?::[0-9]{1,5})?/)?" + name + "(?:/" + name +
                               R"()*(?::\w[\w.-]{0,127})?(?:@[a-z0-9+._-]+:[0-9a-f]{32,128})?)");
  if (image.size() <= 512 && std::regex_match(image, form)) return;
  fail(Exit::kUsage,
       "--image {}: REGISTRY/NAME:TAG is needed, names in lower-case letters",
       shell_quote(image));
}

void check(const PodJob& job) {
  check_job_name(job);
  if (!job.space.empty()) check_name("--namespace", job.space, false, 63);
  if (!job.claim.empty()) check_name("--claim", job.claim, true, 253);
  if (!job.data_claim.empty()) check_name("--data-claim", job.data_claim, true, 253);
  if (!job.secret.empty()) check_name("--secret", job.secret, true, 253);
  if (!job.memory.empty()) check_quantity("--mem", job.memory);
  if (job.shm != "0") check_quantity("--shm", job.shm);
  check_image(job.image);
}

// --- the objects

// Kubernetes puts variables in the place of $(NAME) in arguments; $$ stands for one dollar.
std::string as_argument(const std::string& word) {
  std::string out;
  for (const char c : word) out += c == '$' ? "$$" : std::string(1, c);
  return out;
}

// 75: saved and stopped, comes again and is not counted. 2 to 5: another try would fail as well.
Json failure_policy(const PodJob& job) {
  const auto codes = [&](const char* action, const Json& values) {
    return Json{{"action", action},
                {"onExitCodes",
                 {{"containerName", container_name(job)}, {"operator", "In"}, {"values", values}}}};
  };
  const Json disrupted = {{"type", "DisruptionTarget"}, {"status", "True"}};
  return {{"rules",
           {codes("Ignore", {75}),
            Json{{"action", "Ignore"}, {"onPodConditions", Json::array({disrupted})}},
            codes("FailJob", {2, 3, 4, 5})}}};
}

Json metadata(const PodJob& job, const std::string& name) {
  Json out = {{"name", name}};
  if (!job.space.empty()) out["namespace"] = job.space;
  out["labels"] = {{"app.kubernetes.io/name", "gantrain"},
                   {"app.kubernetes.io/instance", job.name}};
  return out;
}

std::string own_secret(const PodJob& job) { return job.name + "-secret"; }

// Several pods without a common folder, in which node 0 would leave a secret.
bool needs_secret(const PodJob& job) {
  return job.nodes > 1 && job.claim.empty() && job.secret.empty();
}

// Where the pods of a Job or JobSet meet. A TrainJob's controller says it by itself.
Json environment(const PodJob& job) {
  Json out = Json::array();
  const auto add = [&](const char* name, const std::string& value) {
    out.push_back({{"name", name}, {"value", value}});
  };
  add("OMP_NUM_THREADS", std::to_string(job.cpus_per_rank));
  if (job.nodes == 1) return out;
  if (job.kind != "trainjob") {
    const char* index = "metadata.annotations['batch.kubernetes.io/job-completion-index']";
    out.push_back({{"name", "RANK"}, {"valueFrom", {{"fieldRef", {{"fieldPath", index}}}}}});
    add("WORLD_SIZE", std::to_string(job.nodes));
    add("MASTER_ADDR", fmt::format("{0}{1}-0.{0}", job.name, is_set(job) ? "-node-0" : ""));
    add("MASTER_PORT", "29500");
  }
  const std::string secret = needs_secret(job) ? own_secret(job) : job.secret;
  if (!secret.empty()) {
    out.push_back({{"name", "GANTRAIN_JOB_SECRET"},
                   {"valueFrom", {{"secretKeyRef", {{"name", secret}, {"key", "secret"}}}}}});
  }
  return out;
}

Json resources(const PodJob& job) {
  Json requests = {{"cpu", std::to_string(job.cpus_per_rank * job.ranks)}};
  Json limits = Json::object();
  if (!job.memory.empty()) requests["memory"] = limits["memory"] = job.memory;
  if (job.gpus > 0) limits["nvidia.com/gpu"] = std::to_string(job.gpus);
  Json out = {{"requests", requests}};
  if (!limits.empty()) out["limits"] = limits;
  return out;
}

// What the container is given to do. In a TrainJob it stands there and not in the runtime.
Json work(const PodJob& job) {
  Json args = Json::array();
  for (const std::string& word : job.training) args.push_back(as_argument(word));
  return {{"image", job.image}, {"args", args}, {"env", environment(job)}};
}

void add_volume(Json& pod, const std::string& name, const Json& source, const std::string& mount) {
  Json at = {{"name", name}, {"mountPath", mount}};
  if (name == "data") at["readOnly"] = true;
  pod["containers"][0]["volumeMounts"].push_back(at);
  Json volume = {{"name", name}};
  volume.update(source);
  pod["volumes"].push_back(volume);
}

void add_volumes(Json& pod, const PodJob& job) {
  const auto claimed = [](const std::string& claim, bool read_only) {
    Json source = {{"claimName", claim}};
    if (read_only) source["readOnly"] = true;
    return Json{{"persistentVolumeClaim", source}};
  };
  const Json runs =
      job.claim.empty() ? Json{{"emptyDir", Json::object()}} : claimed(job.claim, false);
  add_volume(pod, "runs", runs, job.mount);
  if (!job.data_claim.empty())
    add_volume(pod, "data", claimed(job.data_claim, true), job.data_mount);
  if (job.shm != "0") {
    const Json memory = {{"medium", "Memory"}, {"sizeLimit", job.shm}};
    add_volume(pod, "shm", {{"emptyDir", memory}}, "/dev/shm");
  }
}

Json pod_spec(const PodJob& job) {
  Json container = {{"name", container_name(job)}};
  container.update(work(job));
  if (job.kind == "trainjob") container.erase("args");
  if (job.kind == "trainjob") container.erase("env");
  container["workingDir"] = job.mount;
  if (job.kind != "trainjob") container["resources"] = resources(job);
  container["securityContext"] = {{"allowPrivilegeEscalation", false},
                                  {"capabilities", {{"drop", {"ALL"}}}},
                                  {"readOnlyRootFilesystem", true}};
  Json pod = {{"restartPolicy", "Never"}, {"terminationGracePeriodSeconds", job.grace}};
  if (job.kind == "job" && job.nodes > 1) pod["subdomain"] = job.name;
  pod["securityContext"] = {{"runAsUser", job.user},
                            {"runAsGroup", job.user},
                            {"runAsNonRoot", true},
                            {"fsGroup", job.user},
                            {"fsGroupChangePolicy", "OnRootMismatch"},
                            {"seccompProfile", {{"type", "RuntimeDefault"}}}};
  if (job.gpus > 0) {
    const Json taint = {
        {"key", "nvidia.com/gpu"}, {"operator", "Exists"}, {"effect", "NoSchedule"}};
    pod["tolerations"] = Json::array({taint});
  }
  pod["containers"] = Json::array({container});
  add_volumes(pod, job);
  return pod;
}

// In a JobSet any failure ends the Job, and the set starts all pods again together.
Json job_spec(const PodJob& job) {
  Json spec = Json::object();
  if (job.kind != "trainjob") {
    spec = {{"completionMode", "Indexed"}, {"completions", job.nodes}, {"parallelism", job.nodes}};
  }
  // A run that fails ends all its pods, each of which counts.
  spec["backoffLimit"] = is_set(job) ? 0 : job.restarts * job.nodes;
  spec["podFailurePolicy"] = failure_policy(job);
  spec["template"] = {{"metadata", {{"labels", metadata(job, "")["labels"]}}},
                      {"spec", pod_spec(job)}};
  return spec;
}

Json set_spec(const PodJob& job) {
  Json one = {{"spec", job_spec(job)}};
  if (job.kind == "trainjob") {
    one = {{"metadata", {{"labels", {{"trainer.kubeflow.org/trainjob-ancestor-step", "trainer"}}}}},
           {"spec", one["spec"]}};
  }
  const Json refused = {
      {"name", "refused"}, {"action", "FailJobSet"}, {"onJobFailureReasons", {"PodFailurePolicy"}}};
  return {
      {"network", {{"enableDNSHostnames", true}, {"publishNotReadyAddresses", true}}},
      {"failurePolicy", {{"maxRestarts", job.restarts}, {"rules", Json::array({refused})}}},
      {"replicatedJobs", Json::array({{{"name", "node"}, {"replicas", 1}, {"template", one}}})}};
}

Json object(const PodJob& job, const char* version, const char* kind, const Json& spec) {
  return {{"apiVersion", version},
          {"kind", kind},
          {"metadata", metadata(job, job.name)},
          {"spec", spec}};
}

// The names of a Job's pods lead to them within this Service, which has no address of its own.
Json service(const PodJob& job) {
  return object(
      job,
      "v1",
      "Service",
      {{"clusterIP", "None"},
       {"publishNotReadyAddresses", true},
       {"selector", metadata(job, "")["labels"]},
       {"ports", Json::array({{{"name", "launchers"}, {"protocol", "TCP"}, {"port", 29500}}})}});
}

Json secret(const PodJob& job) {
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"metadata", metadata(job, own_secret(job))},
          {"type", "Opaque"},
          {"stringData", {{"secret", random_hex(32)}}}};
}

Json train_job(const PodJob& job) {
  Json trainer = {{"numNodes", job.nodes}};
  trainer.update(work(job));
  trainer["resourcesPerNode"] = resources(job);
  return object(
      job,
      "trainer.kubeflow.org/v1alpha1",
      "TrainJob",
      {{"runtimeRef",
        {{"apiGroup", "trainer.kubeflow.org"}, {"kind", "TrainingRuntime"}, {"name", job.name}}},
       {"trainer", trainer}});
}

Json training_runtime(const PodJob& job) {
  return object(job,
                "trainer.kubeflow.org/v1alpha1",
                "TrainingRuntime",
                {{"mlPolicy", {{"numNodes", job.nodes}, {"torch", Json::object()}}},
                 {"template", {{"spec", set_spec(job)}}}});
}

std::vector<Json> objects(const PodJob& job) {
  std::vector<Json> out;
  if (needs_secret(job)) out.push_back(secret(job));
  if (job.kind == "jobset") {
    out.push_back(object(job, "jobset.x-k8s.io/v1alpha2", "JobSet", set_spec(job)));
  } else if (job.kind == "trainjob") {
    out.push_back(training_runtime(job));
    out.push_back(train_job(job));
  } else {
    if (job.nodes > 1) out.push_back(service(job));
    out.push_back(object(job, "batch/v1", "Job", job_spec(job)));
  }
  return out;
}

}  // namespace

size_t longest_job_name(const PodJob& job) { return 63 - longest_suffix(job).size(); }

std::string manifest(const PodJob& job) {
  check(job);
  std::string out =
      "# Written by \"gantrain kube\". Applied again after kubectl delete, it goes on with the run "
      "in its folder.\n";
  for (const Json& one : objects(job)) out += "---\n" + yaml(one);
  return out;
}

}  // namespace gantrain
