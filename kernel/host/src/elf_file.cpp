#include "elf_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenon::host {
namespace {

/// Read-only mapping of a file. Trap: reading beyond the end of a mapped file is SIGBUS, so every access is
/// checked against the size at open; plug-ins are replaced by rename, never truncated in place (§21).
class Mapping {
 public:
  static Result<Mapping> open(const std::filesystem::path& file) {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
      const int e = errno;
      const char* remedy = e == EACCES
                               ? "; give the user of the process read permission (chmod a+r)"
                           : e == ENOENT ? "; check the path"
                                         : "";
      const Errc code = e == EACCES ? Errc::kDenied : e == ENOENT ? Errc::kNotFound : Errc::kIo;
      Error error = os_error("cannot be read", e, code);
      error.detail += remedy;
      return error;
    }
    struct ::stat st {};
    if (::fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
      ::close(fd);
      return Error{Errc::kInvalid, "is not a regular file; name the file of the plug-in"};
    }
    Mapping m;
    m.size_ = static_cast<std::size_t>(st.st_size);
    if (m.size_ > 0) {
      void* p = ::mmap(nullptr, m.size_, PROT_READ, MAP_PRIVATE, fd, 0);
      const int e = errno;
      ::close(fd);
      if (p == MAP_FAILED) {
        return os_error("cannot be mapped", e);
      }
      m.data_ = static_cast<const std::byte*>(p);
    } else {
      ::close(fd);
    }
    return m;
  }
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(other.size_) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (data_ != nullptr) {
      ::munmap(const_cast<std::byte*>(data_), size_);
    }
  }

  std::size_t size() const { return size_; }
  bool contains(std::uint64_t offset, std::uint64_t bytes) const {
    return offset <= size_ && bytes <= size_ - offset;
  }
  /// Copy of a struct in the file; the caller checked contains().
  template <class T>
  T read(std::uint64_t offset) const {
    T out;
    std::memcpy(&out, data_ + offset, sizeof out);
    return out;
  }
  /// NUL-terminated text inside [offset, offset + bytes), empty if there is none.
  std::string_view text(std::uint64_t offset, std::uint64_t bytes) const {
    const char* begin = reinterpret_cast<const char*>(data_ + offset);
    const void* end = std::memchr(begin, 0, bytes);
    return end == nullptr
               ? std::string_view{}
               : std::string_view(begin,
                                  static_cast<std::size_t>(static_cast<const char*>(end) - begin));
  }

 private:
  Mapping() = default;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

#if defined(__x86_64__)
constexpr std::uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kMachine = EM_AARCH64;
#elif defined(__riscv)
constexpr std::uint16_t kMachine = EM_RISCV;
#else
#error "name the ELF machine of this platform"
#endif

Error truncated(std::size_t has) {
  return Error{Errc::kCorrupt,
               fmt::format("is truncated: it has {} bytes and its own tables reach beyond; copy it "
                           "again and replace it by "
                           "rename",
                           has)};
}

Error not_elf(std::string_view why) {
  return Error{
      Errc::kInvalid,
      fmt::format("is not an ELF shared object ({}); build it with tenon_add_plugin() or -shared",
                  why)};
}

Result<Elf64_Ehdr> read_header(const Mapping& file) {
  if (file.size() < SELFMAG) {
    return not_elf(file.size() == 0 ? "the file is empty" : "the file is too short");
  }
  const auto magic = file.read<std::uint32_t>(0);
  if (std::memcmp(&magic, ELFMAG, SELFMAG) != 0) {
    return not_elf("it does not begin with the ELF magic");
  }
  if (!file.contains(0, sizeof(Elf64_Ehdr))) {
    return truncated(file.size());
  }
  const auto h = file.read<Elf64_Ehdr>(0);
  if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB) {
    return not_elf("it is not 64-bit little-endian");
  }
  if (h.e_machine != kMachine) {
    return Error{
        Errc::kIncompatible,
        fmt::format(
            "is for another machine (ELF machine {}, this host is {}); rebuild it for this machine",
            h.e_machine,
            kMachine)};
  }
  if (h.e_type != ET_DYN) {
    return not_elf(fmt::format("ELF type {}, not ET_DYN", h.e_type));
  }
  return h;
}

Result<> check_complete(const Mapping& file, const Elf64_Ehdr& h) {
  if (h.e_phentsize != sizeof(Elf64_Phdr) || h.e_shentsize != sizeof(Elf64_Shdr)) {
    return not_elf("it has no program or section headers");
  }
  if (!file.contains(h.e_phoff, std::uint64_t{h.e_phnum} * sizeof(Elf64_Phdr)) ||
      !file.contains(h.e_shoff, std::uint64_t{h.e_shnum} * sizeof(Elf64_Shdr))) {
    return truncated(file.size());
  }
  for (std::uint64_t i = 0; i < h.e_phnum; ++i) {
    const auto p = file.read<Elf64_Phdr>(h.e_phoff + i * sizeof(Elf64_Phdr));
    if (p.p_type == PT_LOAD && !file.contains(p.p_offset, p.p_filesz)) {
      return truncated(file.size());
    }
  }
  return ok();
}

}  // namespace

Result<std::vector<std::string>> exported_symbols(const std::filesystem::path& path) {
  TENON_TRY(auto file, Mapping::open(path));
  TENON_TRY(auto header, read_header(file));
  TENON_TRY(check_complete(file, header));

  std::vector<std::string> names;
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    const auto table = file.read<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr));
    if (table.sh_type != SHT_DYNSYM) {
      continue;
    }
    if (table.sh_link >= header.e_shnum || !file.contains(table.sh_offset, table.sh_size)) {
      return truncated(file.size());
    }
    const auto strings = file.read<Elf64_Shdr>(header.e_shoff + table.sh_link * sizeof(Elf64_Shdr));
    if (!file.contains(strings.sh_offset, strings.sh_size)) {
      return truncated(file.size());
    }
    for (std::uint64_t s = 0; s + sizeof(Elf64_Sym) <= table.sh_size; s += sizeof(Elf64_Sym)) {
      const auto symbol = file.read<Elf64_Sym>(table.sh_offset + s);
      const bool exported =
          symbol.st_shndx != SHN_UNDEF && ELF64_ST_BIND(symbol.st_info) != STB_LOCAL;
      if (exported && symbol.st_name < strings.sh_size) {
        names.emplace_back(
            file.text(strings.sh_offset + symbol.st_name, strings.sh_size - symbol.st_name));
      }
    }
  }
  return names;
}

}  // namespace tenon::host
