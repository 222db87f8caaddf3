// SPDX-License-Identifier: Apache-2.0
#include "core/archive.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <cstring>
#include <exception>
#include <memory>

#include "core/torch.h"
#include "util/error.h"
#include "util/hash.h"

namespace gantrain {

namespace jit = torch::jit;

namespace {

constexpr std::string_view kMark = "gantrain-xxh3-128:";
constexpr size_t kCommentBytes = kMark.size() + 32;
constexpr size_t kEndRecordBytes = 22;  // zip's end-of-central-directory record without a comment

// Receives the zip's bytes in order; keeps back the end record, to write it with the comment's
// length in it.
class Sink {
 public:
  explicit Sink(AtomicFile& file) : file_(file) {}

  void write(const void* data, size_t bytes) {
    const char* from = static_cast<const char*>(data);
    if (bytes >= kEndRecordBytes) {
      pass(held_.data(), held_.size());
      pass(from, bytes - kEndRecordBytes);
      held_.assign(from + bytes - kEndRecordBytes, kEndRecordBytes);
      return;
    }
    held_.append(from, bytes);
    if (held_.size() <= kEndRecordBytes) return;
    const size_t ready = held_.size() - kEndRecordBytes;
    pass(held_.data(), ready);
    held_.erase(0, ready);
  }

  void finish() {
    if (held_.size() != kEndRecordBytes || held_.compare(0, 4, "PK\5\6") != 0) {
      throw std::logic_error("state file: the zip does not end in an end record");
    }
    const auto length = static_cast<uint16_t>(kCommentBytes);
    std::memcpy(held_.data() + kEndRecordBytes - 2, &length, 2);
    pass(held_.data(), held_.size());
    file_.write(std::string(kMark) + digest_.hex());
  }

 private:
  void pass(const char* data, size_t bytes) {
    digest_.update(data, bytes);
    file_.write(data, bytes);
  }

  AtomicFile& file_;
  Digest digest_;
  std::string held_;
};

c10::IValue to_pickled(const Archive& archive) {
  c10::Dict<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : archive.tensors) {
    tensors.insert(name, tensor.detach().cpu().contiguous());
  }
  c10::impl::GenericDict all(c10::StringType::get(), c10::AnyType::get());
  all.insert("meta", archive.meta);
  all.insert("tensors", tensors);
  return all;
}

void check_digest(const std::string& file, const std::string& content) {
  const size_t mark =
      content.size() < kCommentBytes ? std::string::npos : content.size() - kCommentBytes;
  if (mark == std::string::npos || content.compare(mark, kMark.size(), kMark) != 0) {
    fail(Exit::kInput, "{}: not a whole state file (truncated, or not written by gantrain)", file);
  }
  Digest digest;
  digest.update(content.data(), mark);
  if (content.compare(mark + kMark.size(), 32, digest.hex()) != 0) {
    fail(Exit::kInput, "{}: fails its checksum (corrupted)", file);
  }
}

// A file in memory, as LibTorch's reader of zip files wants it.
class MemoryReader : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit MemoryReader(std::string_view content) : content_(content) {}
  size_t size() const override { return content_.size(); }
  size_t read(uint64_t at, void* out, size_t bytes, const char* /*what*/) const override {
    if (at > content_.size()) return 0;
    bytes = std::min(bytes, content_.size() - at);
    std::memcpy(out, content_.data() + at, bytes);
    return bytes;
  }

 private:
  std::string_view content_;
};

// The records of a zip. A record that would be longer than the file, compressed or not, is refused
// before any memory is taken for it.
class Records {
 public:
  Records(std::string file, std::string_view content)
      : file_(std::move(file)), reader_(std::make_shared<MemoryReader>(content)) {
    uint64_t left = content.size();
    for (const std::string& name : reader_.getAllRecords()) {
      const uint64_t bytes = reader_.getRecordSize(name);
      if (bytes > left) fail(Exit::kInput, "{}: record {} is longer than the file", file_, name);
      left -= bytes;
    }
  }

  // Returns the bytes: uint8 [n].
  at::Tensor read(const std::string& name) {
    if (!reader_.hasRecord(name)) fail(Exit::kInput, "{}: record {} is missing", file_, name);
    auto [data, bytes] = reader_.getRecord(name);
    const auto owner = std::make_shared<at::DataPtr>(std::move(data));
    return at::from_blob(
        owner->get(), {static_cast<int64_t>(bytes)}, [owner](void*) {}, at::kByte);
  }

 private:
  std::string file_;
  caffe2::serialize::PyTorchStreamReader reader_;
};

// Reads what the file's checksum has shown to be whole, and what may be hostile all the same.
Archive read_archive(const std::string& file, std::string_view content) {
  Records records(file, content);
  const at::Tensor program = records.read("data.pkl");
  PickleRules rules;
  rules.source = file;
  rules.globals = torch_globals();
  rules.hint = "; tensors and plain values alone are";
  rules.persistent_ids = true;
  const Pickle pickle = parse_pickle(
      {static_cast<const char*>(program.data_ptr()), static_cast<size_t>(program.numel())}, rules);
  const PickleValue* meta = pickle.root->find("meta");
  const PickleValue* tensors = pickle.root->find("tensors");
  if (meta == nullptr || meta->kind != PickleKind::kString || tensors == nullptr ||
      tensors->kind != PickleKind::kDict) {
    fail(Exit::kInput, "{}: not a gantrain state: its text or its tensors are missing", file);
  }
  TorchTensors reader(file, static_cast<int64_t>(content.size()), [&](const std::string& key) {
    return records.read("data/" + key);
  });
  Archive archive;
  archive.meta = meta->text;
  for (size_t i = 0; i + 1 < tensors->items.size(); i += 2) {
    const PickleValue& name = *tensors->items[i];
    if (name.kind != PickleKind::kString)
      fail(Exit::kInput, "{}: a tensor is named by {}, no text", file, name.describe());
    archive.tensors[std::string(name.text)] =
        reader.read(*tensors->items[i + 1], std::string(name.text));
  }
  return archive;
}

}  // namespace

void save_archive(const std::filesystem::path& path, const Archive& archive) {
  AtomicFile file(path);
  Sink sink(file);
  // An exception must not cross the writer, whose destructor would write again and throw another
  // one. So the first is kept, and what comes after it is thrown away.
  std::exception_ptr failed;
  {
    caffe2::serialize::PyTorchStreamWriter writer([&](const void* data, size_t bytes) {
      try {
        if (!failed) sink.write(data, bytes);
      } catch (...) {
        failed = std::current_exception();
      }
      return bytes;
    });
    std::vector<char> pickle;
    jit::Pickler pickler(
        [&](const char* data, size_t bytes) { pickle.insert(pickle.end(), data, data + bytes); },
        nullptr,
        nullptr,
        nullptr,
        nullptr,
        /*tag_aggregates=*/false);
    pickler.protocol();
    pickler.pushIValue(to_pickled(archive));
    pickler.stop();
    writer.writeRecord("data.pkl", pickle.data(), pickle.size());
    size_t index = 0;
    for (const at::Tensor& tensor : pickler.tensorData()) {
      const at::Tensor flat = tensor.contiguous();
      writer.writeRecord(fmt::format("data/{}", index++), flat.data_ptr(), flat.nbytes());
    }
    writer.writeEndOfFile();
  }
  if (failed) std::rethrow_exception(failed);
  sink.finish();
  file.commit();
}

Archive load_archive(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  check_digest(path.string(), content);
  try {
    return read_archive(path.string(), content);
  } catch (const c10::Error& e) {
    fail(Exit::kInput, "{}: not a gantrain state: {}", path.string(), e.what_without_backtrace());
  }
}

}  // namespace gantrain
