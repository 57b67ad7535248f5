#include "local_offsets.h"

#include "errors.h"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace tenon::sdk::detail {
namespace {

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return std::nullopt;
  }
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

LocalOffsets::LocalOffsets(std::string root, std::string_view client_id, std::string_view group)
    : path_(std::move(root) + "/" + std::string(client_id) + "/" + std::string(group) +
            "/offsets.json") {}

Result<void> LocalOffsets::load() {
  const std::scoped_lock lock(mutex_);
  for (const std::string& path : {path_, path_ + ".bak"}) {
    const auto text = read_file(path);
    if (!text || text->empty()) {
      continue;
    }
    auto decoded = proto::decode_local_offsets(*text);
    if (decoded.has_value()) {
      offsets_ = std::move(decoded).value();
      return {};
    }
    if (path != path_) {
      return make_error(
          Errc::kInvalidArgument,
          "neither " + path_ + " nor its .bak can be read; remove both to start anew");
    }
  }
  return {};
}

std::optional<std::int64_t> LocalOffsets::get(const Queue& queue) const {
  const std::scoped_lock lock(mutex_);
  const auto it = offsets_.find({queue.topic, queue.broker, queue.id});
  return it == offsets_.end() ? std::nullopt : std::optional(it->second);
}

Result<void> LocalOffsets::save(const OffsetMap& offsets) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [queue, offset] : offsets) {
    offsets_[{queue.topic, queue.broker, queue.id}] = offset;
  }
  const std::string text = proto::encode_local_offsets(offsets_);
  std::error_code ec;
  const std::filesystem::path path(path_);
  std::filesystem::create_directories(path.parent_path(), ec);
  const std::string temporary = path_ + ".tmp";
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out << text;
    out.flush();
    if (!out) {
      return make_error(Errc::kInternal, "cannot write " + temporary);
    }
  }
  if (std::filesystem::exists(path, ec)) {
    std::filesystem::copy_file(
        path, path_ + ".bak", std::filesystem::copy_options::overwrite_existing, ec);
  }
  std::filesystem::rename(temporary, path, ec);
  if (ec) {
    return make_error(Errc::kInternal, "cannot rename " + temporary + ": " + ec.message());
  }
  return {};
}

}  // namespace tenon::sdk::detail
