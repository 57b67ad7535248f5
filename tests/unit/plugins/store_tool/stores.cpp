#include "stores.h"

#include "paths.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include <unistd.h>

namespace tenon::test {

namespace fs = std::filesystem;

TempFolder::TempFolder() {
  std::string name = (fs::temp_directory_path() / "tenon-store-XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ec;
  fs::remove_all(path_, ec);
}

GoldenStore::GoldenStore(const std::string& name) {
  const fs::path archive = fs::path(data_dir()) / "store" / name / "store.tar.gz";
  const std::string command =
      "tar -xzf '" + archive.string() + "' -C '" + folder_.path().string() + "'";
  REQUIRE(std::system(command.c_str()) == 0);
}

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_at(const fs::path& path, std::uint64_t at, const std::string& bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  REQUIRE(file.is_open());
  file.seekp(static_cast<std::streamoff>(at));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  REQUIRE(file.good());
}

void flip_bit(const fs::path& path, std::uint64_t at) {
  const std::string content = slurp(path);
  REQUIRE(at < content.size());
  write_at(path, at, std::string(1, static_cast<char>(content[at] ^ 1)));
}

std::map<std::string, std::string> contents(const fs::path& root,
                                            const std::vector<std::string>& below) {
  std::map<std::string, std::string> files;
  for (const std::string& top : below) {
    std::error_code ec;
    for (fs::recursive_directory_iterator it(root / top, ec), end; !ec && it != end; ++it) {
      if (it->is_regular_file()) {
        files[fs::relative(it->path(), root).string()] = slurp(it->path());
      }
    }
  }
  return files;
}

std::unique_ptr<store_tool::Folder> open_store(const std::string& root, bool snapshot) {
  store_tool::OpenOptions options;
  options.snapshot = snapshot;
  auto opened = store_tool::Folder::open(root, options);
  REQUIRE_MESSAGE(opened.has_value(), opened.error().detail);
  return std::move(opened).value();
}

std::vector<store_tool::Finding> Checked::of(std::string_view kind) const {
  std::vector<store_tool::Finding> some;
  for (const auto& f : findings) {
    if (f.kind == kind) {
      some.push_back(f);
    }
  }
  return some;
}

std::string Checked::text() const {
  std::string all;
  for (const auto& f : findings) {
    all += fmt::format(
        "{} {} {}:{} {}\n", store_tool::to_string(f.severity), f.kind, f.file, f.position, f.text);
  }
  return all;
}

Checked check_store(const std::string& root, bool snapshot) {
  const auto folder = open_store(root, snapshot);
  Checked checked;
  store_tool::InspectOptions options;
  options.delays = store_tool::DelayTable::parse(store_tool::kDefaultDelayLevels).value();
  options.sink = [&](const store_tool::Finding& f) { checked.findings.push_back(f); };
  auto done = store_tool::inspect(*folder, options);
  REQUIRE(done.has_value());
  checked.result = std::move(done).value();
  return checked;
}

}  // namespace tenon::test
