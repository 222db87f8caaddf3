// SPDX-License-Identifier: Apache-2.0
#include "core/archive.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/csrc/jit/serialization/unpickler.h>
#include <torch/torch.h>

#include <cstring>
#include <sstream>

#include "util/error.h"
#include "util/file.h"
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
    held_.append(static_cast<const char*>(data), bytes);
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

// Reads the pickle of an archive that was just checked.
c10::IValue unpickle(const std::string& content) {
  std::istringstream stream(content);
  caffe2::serialize::PyTorchStreamReader reader(&stream);
  auto [data, bytes] = reader.getRecord("data.pkl");
  size_t at = 0;
  const auto read = [&, data = data.get(), bytes = bytes](char* out, size_t count) -> size_t {
    count = std::min(count, bytes - at);
    std::memcpy(out, static_cast<const char*>(data) + at, count);
    at += count;
    return count;
  };
  const auto record = [&](const std::string& name) {
    auto [pointer, size] = reader.getRecord("data/" + name);
    return std::move(pointer);
  };
  jit::Unpickler unpickler(read, nullptr, nullptr, record, std::nullopt);
  return unpickler.parse_ivalue();
}

}  // namespace

void save_archive(const std::filesystem::path& path, const Archive& archive) {
  AtomicFile file(path);
  Sink sink(file);
  {
    caffe2::serialize::PyTorchStreamWriter writer([&](const void* data, size_t bytes) {
      sink.write(data, bytes);
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
  sink.finish();
  file.commit();
}

Archive load_archive(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  check_digest(path.string(), content);
  try {
    Archive archive;
    const c10::IValue all = unpickle(content);
    const auto dict = all.toGenericDict();
    archive.meta = dict.at("meta").toStringRef();
    for (const auto& item : dict.at("tensors").toGenericDict()) {
      archive.tensors[item.key().toStringRef()] = item.value().toTensor();
    }
    return archive;
  } catch (const c10::Error& e) {
    fail(Exit::kInput, "{}: not a gantrain state: {}", path.string(), e.what_without_backtrace());
  }
}

}  // namespace gantrain
