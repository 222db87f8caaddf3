// SPDX-License-Identifier: Apache-2.0
#include "inspect_content.h"
#include "report/tensorboard.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

// The last line may be half written: then the run was killed, or it is at work.
FileContent json_lines(const fs::path& path, const std::string& bytes) {
  FileContent content{.kind = "JSON lines"};
  std::vector<std::string> lines = split(bytes, '\n');
  const bool cut = !lines.back().empty();
  lines.pop_back();
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!Json::accept(lines[i])) fail(Exit::kInput, "{}: line {} is no JSON", path.string(), i + 1);
  }
  content.facts["lines"] = lines.size();
  if (cut) content.facts["end"] = "a line that is half written";
  if (!lines.empty()) content.facts["last"] = Json::parse(lines.back());
  return content;
}

FileContent events(const fs::path& path, const std::string& bytes) {
  FileContent content{.kind = "TensorBoard events"};
  const EventRecords records = count_event_records(bytes);
  if (records.count == 0)
    fail(Exit::kInput, "{}: no event file: its first record is broken", path.string());
  content.facts["records"] = records.count;
  if (records.bytes < bytes.size())
    content.facts["end"] = fmt::format("{} bytes that are cut off or broken, from byte {} on",
                                       bytes.size() - records.bytes,
                                       records.bytes);
  const fs::path folder = path.parent_path();
  content.next = "tensorboard --logdir " + (folder.empty() ? "." : shell_quote(folder.string()));
  return content;
}

FileContent text(const std::string& bytes) {
  FileContent content{.kind = "text"};
  std::vector<std::string> lines = split(bytes, '\n');
  if (lines.back().empty()) lines.pop_back();
  content.facts["lines"] = lines.size();
  if (!lines.empty()) content.facts["last"] = lines.back().substr(0, 200);
  return content;
}

bool is_utf8(const std::string& bytes) {
  try {
    return !Json(bytes).dump().empty();
  } catch (const Json::exception&) {
    return false;
  }
}

// The texts of a run, of an exported model and of scripts, by their names.
bool is_own_text(const std::string& name) {
  if (name == "STATUS" || name == "command.txt") return true;
  if (starts_with(name, "log") && ends_with(name, ".txt")) return true;
  for (const char* suffix : {".html", ".md", ".py", ".sh"})
    if (ends_with(name, suffix)) return true;
  return false;
}

}  // namespace

FileContent read_record(const fs::path& path, const std::string& bytes) {
  const std::string name = path.filename().string();
  if (starts_with(name, "events.out.tfevents.")) return events(path, bytes);
  if (ends_with(name, ".jsonl")) return json_lines(path, bytes);
  if (is_own_text(name) && !bytes.empty() && is_utf8(bytes)) return text(bytes);
  fail(Exit::kInput,
       "{}: {} that gantrain writes: a model (.safetensors), a state (.pt), a network pickle, an "
       "array (.npy), a picture, a configuration (.json), another file of a run or a run folder is "
       "needed",
       path.string(),
       bytes.empty() ? "an empty file, not one" : "no file");
}

}  // namespace gantrain
