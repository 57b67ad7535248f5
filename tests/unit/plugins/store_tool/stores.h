// Copies of recorded store folders, to be looked at and damaged.
#pragma once

#include "tenon/store_tool/folder.h"
#include "tenon/store_tool/inspect.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tenon::test {

/// A folder below the system's temporary one, removed at the end.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// tests/data/store/NAME, unpacked.
class GoldenStore {
 public:
  explicit GoldenStore(const std::string& name);
  std::string root() const { return (folder_.path() / "store").string(); }
  std::filesystem::path operator/(const std::string& below) const {
    return folder_.path() / "store" / below;
  }
  const std::filesystem::path& parent() const { return folder_.path(); }

 private:
  TempFolder folder_{};
};

std::string slurp(const std::filesystem::path& path);
void write_at(const std::filesystem::path& path, std::uint64_t at, const std::string& bytes);
void flip_bit(const std::filesystem::path& path, std::uint64_t at);
/// All plain files below a folder.
std::map<std::string, std::string> contents(const std::filesystem::path& root,
                                            const std::vector<std::string>& below);

std::unique_ptr<store_tool::Folder> open_store(const std::string& root, bool snapshot = false);

struct Checked {
  store_tool::Inspection result{};
  std::vector<store_tool::Finding> findings{};
  /// Those of a kind.
  std::vector<store_tool::Finding> of(std::string_view kind) const;
  std::string text() const;  ///< all, for messages of failed checks
};
Checked check_store(const std::string& root, bool snapshot = false);

}  // namespace tenon::test
