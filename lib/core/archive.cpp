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

using Kind = PickleKind;

constexpr std::pair<const char*, at::ScalarType> kStorageTypes[] = {
    {"torch.FloatStorage", at::kFloat},
    {"torch.HalfStorage", at::kHalf},
    {"torch.BFloat16Storage", at::kBFloat16},
    {"torch.DoubleStorage", at::kDouble},
    {"torch.LongStorage", at::kLong},
    {"torch.IntStorage", at::kInt},
    {"torch.ShortStorage", at::kShort},
    {"torch.CharStorage", at::kChar},
    {"torch.ByteStorage", at::kByte},
    {"torch.BoolStorage", at::kBool},
    {"torch.storage.UntypedStorage", at::kByte},
};

constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr int64_t kProtocol = 1001;

// One of the stream's pickles, and the content behind it.
Pickle next_pickle(std::string_view& content, const PickleRules& rules) {
  Pickle pickle = parse_pickle(content, rules);
  content.remove_prefix(pickle.end);
  return pickle;
}

// (storage, class, key, place, elements[, view of it (key, first element, elements)])
struct StorageId {
  at::ScalarType type = at::kFloat;
  std::string_view key;
  int64_t elements = 0;
  int64_t first = 0;  // of the view
  int64_t count = 0;
};

StorageId read_id(const PickleValue& root, const std::string& source) {
  const auto bad = [&] { fail(Exit::kInput, "{}: {}, no storage", source, root.describe()); };
  if (root.kind != Kind::kPersistent || root.arguments->kind != Kind::kTuple) bad();
  const std::vector<const PickleValue*>& id = root.arguments->items;
  if (id.size() < 5 || id.size() > 6 || id[0]->text != "storage" || id[1]->kind != Kind::kGlobal ||
      id[2]->kind != Kind::kString || id[4]->kind != Kind::kInt || id[4]->integer < 0) {
    bad();
  }
  StorageId result{at::ScalarType::Undefined, id[2]->text, id[4]->integer, 0, id[4]->integer};
  for (const auto& [name, type] : kStorageTypes) {
    if (id[1]->text == name) result.type = type;
  }
  if (result.type == at::ScalarType::Undefined)
    fail(Exit::kInput, "{}: {} is no storage class", source, id[1]->describe());
  if (id.size() < 6 || id[5]->kind == Kind::kNone) return result;
  const std::vector<const PickleValue*>& view = id[5]->items;
  if (view.size() != 3 || view[1]->kind != Kind::kInt || view[2]->kind != Kind::kInt) bad();
  result.first = view[1]->integer;
  result.count = view[2]->integer;
  if (result.first < 0 || result.count < 0 || result.first > result.elements ||
      result.count > result.elements - result.first) {
    bad();
  }
  return result;
}

void check_system(const PickleValue& system, const std::string& source) {
  const PickleValue* little = system.find("little_endian");
  if (little == nullptr || little->kind != Kind::kBool)
    fail(Exit::kInput, "{}: the storage does not say how its bytes are ordered", source);
  if (little->integer == 0)
    fail(Exit::kInput, "{}: written on a big-endian machine, which is not supported", source);
}

std::vector<int64_t> sizes_of(const PickleValue& value) {
  std::vector<int64_t> sizes;
  for (const PickleValue* item : value.items) {
    if (item->kind != Kind::kInt || item->integer < 0) return {-1};
    sizes.push_back(item->integer);
  }
  return sizes;
}

// Elements of the tensor, or -1 if it does not lie within `length` elements.
int64_t elements_within(const std::vector<int64_t>& sizes,
                        const std::vector<int64_t>& strides,
                        int64_t first,
                        int64_t length) {
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (__builtin_mul_overflow(count, size, &count)) return -1;
  }
  if (count == 0) return first <= length ? 0 : -1;
  int64_t last = first;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return -1;
    }
  }
  return last < length ? count : -1;
}

// Elements as int64, then their bytes, lowest first.
at::Tensor read_data(std::string_view stream, const StorageId& id, const std::string& source) {
  int64_t elements = 0;
  if (stream.size() < sizeof elements)
    fail(Exit::kInput, "{}: the storage's data is missing", source);
  std::memcpy(&elements, stream.data(), sizeof elements);
  stream.remove_prefix(sizeof elements);
  const auto width = static_cast<int64_t>(c10::elementSize(id.type));
  const auto room = static_cast<int64_t>(stream.size());
  if (elements != id.elements || elements > room / width) {
    fail(Exit::kInput,
         "{}: {} elements of {} bytes are announced, {} in the data, which has {} bytes",
         source,
         id.elements,
         width,
         elements,
         room);
  }
  const bool truth = id.type == at::kBool;  // any byte, but a bool is 0 or 1
  const at::Tensor flat = at::empty({id.count}, truth ? at::kByte : id.type);
  if (id.count > 0) std::memcpy(flat.data_ptr(), stream.data() + id.first * width, flat.nbytes());
  return truth ? flat.ne(0) : flat;
}

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

std::set<std::string, std::less<>> torch_globals() {
  std::set<std::string, std::less<>> names = {"torch._utils._rebuild_parameter",
                                              "torch._utils._rebuild_tensor",
                                              "torch._utils._rebuild_tensor_v2",
                                              "torch.storage._load_from_bytes",
                                              "torch.Size",
                                              "torch.device",
                                              "numpy.dtype",
                                              "numpy.ndarray"};
  for (const auto& [name, type] : kStorageTypes) names.insert(name);
  for (const char* type : {"float16",
                           "float32",
                           "float64",
                           "bfloat16",
                           "int8",
                           "int16",
                           "int32",
                           "int64",
                           "uint8",
                           "bool"}) {
    names.insert(std::string("torch.") + type);
  }
  for (const char* core : {"numpy.core", "numpy._core"}) {  // before and since numpy 2
    for (const char* name : {"scalar", "_reconstruct"})
      names.insert(fmt::format("{}.multiarray.{}", core, name));
    names.insert(fmt::format("{}.numeric._frombuffer", core));
  }
  return names;
}

bool is_torch_tensor(const PickleValue& value) {
  return value.kind == Kind::kObject && (value.text == "torch._utils._rebuild_parameter" ||
                                         value.text == "torch._utils._rebuild_tensor" ||
                                         value.text == "torch._utils._rebuild_tensor_v2");
}

at::Tensor TorchTensors::read(const PickleValue& value, const std::string& name) {
  const PickleValue* tensor = &value;
  if (value.text == "torch._utils._rebuild_parameter" && value.kind == Kind::kObject) {
    if (value.arguments->items.empty())
      fail(Exit::kInput, "{}: {}: a parameter without its tensor", source_, name);
    tensor = value.arguments->items[0];
  }
  if (!is_torch_tensor(*tensor) || tensor->text == "torch._utils._rebuild_parameter")
    fail(Exit::kInput, "{}: {} is {}, no tensor", source_, name, tensor->describe());
  return view(*tensor, name);
}

// Arguments: storage, first element, sizes, strides, and what does not matter here.
at::Tensor TorchTensors::view(const PickleValue& rebuilt, const std::string& name) {
  const std::vector<const PickleValue*>& items = rebuilt.arguments->items;
  if (items.size() < 4 || items[1]->kind != Kind::kInt || items[2]->kind != Kind::kTuple ||
      items[3]->kind != Kind::kTuple) {
    fail(Exit::kInput, "{}: {}: a tensor without storage, sizes and strides", source_, name);
  }
  const at::Tensor flat = storage(*items[0], name);
  const int64_t first = items[1]->integer;
  const std::vector<int64_t> sizes = sizes_of(*items[2]);
  const std::vector<int64_t> strides = sizes_of(*items[3]);
  const bool sound = first >= 0 && sizes.size() == strides.size() && sizes.size() <= 8 &&
                     (sizes.empty() || (sizes[0] >= 0 && strides[0] >= 0));
  const int64_t count = sound ? elements_within(sizes, strides, first, flat.numel()) : -1;
  if (count < 0) {
    fail(Exit::kInput,
         "{}: {}: sizes [{}] with strides [{}] from element {} leave its storage of {} elements",
         source_,
         name,
         fmt::join(sizes, ", "),
         fmt::join(strides, ", "),
         first,
         flat.numel());
  }
  const at::Tensor seen = at::as_strided(flat, sizes, strides, first);
  // A view of a record as a whole takes no memory of its own.
  if (records_ && seen.is_contiguous()) return seen;
  const auto width = static_cast<int64_t>(flat.element_size());
  if (count > left_ / width)
    fail(Exit::kInput, "{}: {}: the tensors are larger than the file", source_, name);
  left_ -= count * width;
  return seen.contiguous();
}

// A storage that lies in a record, which must have the length that the pickle tells.
at::Tensor TorchTensors::record(const PickleValue& value, const std::string& name) {
  const StorageId id = read_id(value, fmt::format("{}: {}", source_, name));
  const std::string key(id.key);
  at::Tensor& bytes = in_records_[key];
  if (!bytes.defined()) bytes = records_(key);
  const auto width = static_cast<int64_t>(c10::elementSize(id.type));
  if (bytes.numel() % width != 0 || bytes.numel() / width != id.elements) {
    fail(Exit::kInput,
         "{}: {}: {} elements of {} bytes are announced, its record has {} bytes",
         source_,
         name,
         id.elements,
         width,
         bytes.numel());
  }
  if (id.type == at::kBool) return bytes.ne(0);  // any byte, but a bool is 0 or 1
  return id.elements == 0 ? at::empty({0}, id.type) : bytes.view(id.type);
}

at::Tensor TorchTensors::storage(const PickleValue& value, const std::string& name) {
  if (records_ && value.kind == Kind::kPersistent) return record(value, name);
  if (value.kind != Kind::kObject || value.text != "torch.storage._load_from_bytes" ||
      value.arguments->items.size() != 1 || value.arguments->items[0]->kind != Kind::kBytes) {
    fail(Exit::kInput, "{}: {}: its storage is {}, no bytes", source_, name, value.describe());
  }
  const std::string_view stream = value.arguments->items[0]->text;
  const auto known = storages_.find(stream.data());
  if (known != storages_.end()) return known->second;
  const std::string where = fmt::format("{}: {} (bytes at {})", source_, name, value.position);
  return storages_.emplace(stream.data(), read_legacy_storage(stream, where)).first->second;
}

at::Tensor read_legacy_storage(std::string_view stream, const std::string& source) {
  PickleRules rules;
  rules.source = source;
  rules.max_operations = 10'000;
  for (const auto& [name, type] : kStorageTypes) rules.globals.insert(name);
  rules.hint = "; storages alone are";
  const Pickle magic = next_pickle(stream, rules);
  if (magic.root->kind != Kind::kBigInt || magic.root->text != kMagic)
    fail(Exit::kInput, "{}: not a storage that torch.save wrote before zip files", source);
  const Pickle protocol = next_pickle(stream, rules);
  if (protocol.root->kind != Kind::kInt || protocol.root->integer != kProtocol)
    fail(Exit::kInput, "{}: a storage of an unknown protocol, {} is known", source, kProtocol);
  check_system(*next_pickle(stream, rules).root, source);
  rules.persistent_ids = true;
  const Pickle object = next_pickle(stream, rules);
  const StorageId id = read_id(*object.root, source);
  rules.persistent_ids = false;
  const Pickle keys = next_pickle(stream, rules);
  if (keys.root->kind != Kind::kList || keys.root->items.size() != 1 ||
      keys.root->items[0]->kind != Kind::kString || keys.root->items[0]->text != id.key) {
    fail(Exit::kInput, "{}: the stream holds other storages than it says", source);
  }
  return read_data(stream, id, source);
}

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
