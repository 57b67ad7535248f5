// tenon store dump messages|units|index
#include "commands/store.h"

#include "tenon/base/endian.h"
#include "tenon/proto/properties.h"
#include "tenon/store_tool/dump.h"

#include <fmt/format.h>

#include <charconv>

namespace tenon::app {

namespace {

constexpr std::size_t kShownBytes = 200;

struct DumpOptions : StoreOptions {
  std::string topic{};
  int queue = -1;
  std::string offsets{};
  std::string since{};
  std::string until{};
  std::string key{};
  std::uint64_t max = 0;
  bool scan = false;
  bool no_body = false;
};

std::string hex(std::span<const std::uint8_t> bytes) {
  std::string out;
  for (const std::uint8_t b : bytes) {
    out += fmt::format("{:02x}", b);
  }
  return out;
}

/// "17" or "17..90", both ends included; "17.." to the end.
bool parse_offsets(const std::string& text, std::int64_t& from, std::int64_t& to) {
  const auto number = [](std::string_view part, std::int64_t& out) {
    const auto [end, ec] = std::from_chars(part.data(), part.data() + part.size(), out);
    return ec == std::errc{} && end == part.data() + part.size() && out >= 0;
  };
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) {
    return number(text, from) && number(text, to);
  }
  const std::string_view tail = std::string_view(text).substr(dots + 2);
  return number(std::string_view(text).substr(0, dots), from) &&
         (tail.empty() || number(tail, to)) && from <= to;
}

std::string check_offsets(const std::string& text) {
  std::int64_t from = 0;
  std::int64_t to = 0;
  return parse_offsets(text, from, to) || text.ends_with("..")
             ? std::string()
             : "\"" + text + "\" is no range of offsets: 17, 17..90 or 17..";
}

store_tool::Filter filter_of(const DumpOptions& o) {
  store_tool::Filter filter;
  filter.topic = o.topic;
  filter.key = o.key;
  filter.scan = o.scan;
  if (o.queue >= 0) {
    filter.queue_id = static_cast<std::uint32_t>(o.queue);
  }
  if (!o.offsets.empty()) {
    parse_offsets(o.offsets, filter.from_offset, filter.to_offset);
  }
  if (!o.since.empty()) {
    filter.from_ms = time_of(o.since);
  }
  if (!o.until.empty()) {
    filter.to_ms = time_of(o.until);
  }
  if (o.max > 0) {
    filter.max = o.max;
  }
  return filter;
}

/// The body as the sender gave it where that is possible.
std::string body_of(const proto::MessageView& m, bool& plain) {
  plain = true;
  if ((m.sys_flag & proto::sys_flag::kCompressed) != 0) {
    if (auto inflated = proto::decompress(m.body, m.sys_flag)) {
      return std::move(inflated).value();
    }
    plain = false;
  }
  return std::string(as_text(m.body));
}

void message_text(const proto::MessageView& m, bool with_body) {
  std::string line = fmt::format("{} {}/{} offset={} stored={} id={}",
                                 m.phys_offset,
                                 m.topic,
                                 m.queue_id,
                                 m.queue_offset,
                                 time_text(m.store_ms),
                                 proto::offset_message_id(m.store_host, m.phys_offset));
  for (proto::PropertyIterator it(m.properties); it.next();) {
    line += fmt::format(" {}={}", it.name(), quote_json(it.value()));
  }
  bool plain = true;
  const std::string body = with_body ? body_of(m, plain) : std::string();
  if (with_body && plain && is_utf8(body)) {
    const bool cut = body.size() > kShownBytes;
    line += " body=" + quote_json(std::string_view(body).substr(0, kShownBytes));
    line += cut ? fmt::format("… {} bytes", body.size()) : "";
  } else {
    line += fmt::format(" body={} bytes", m.body.size());
  }
  print_line(line);
}

void message_json(const proto::MessageView& m, bool with_body) {
  Json json;
  json.begin_object().field("phys", m.phys_offset).field("topic", m.topic);
  json.field("queue_id", m.queue_id).field("queue_offset", m.queue_offset);
  json.field("store_ms", m.store_ms).field("born_ms", m.born_ms);
  json.field("id", proto::offset_message_id(m.store_host, m.phys_offset));
  json.field("bytes", m.total_bytes)
      .field("magic", fmt::format("{:08x}", static_cast<std::uint32_t>(m.magic)));
  json.field("sys_flag", m.sys_flag).field("flag", m.flag);
  json.field("born_host", proto::to_string(m.born_host));
  json.field("store_host", proto::to_string(m.store_host));
  json.field("reconsume_times", m.reconsume_times).field("prepared_offset", m.prepared_offset);
  json.key("properties").begin_object();
  for (const auto& property : proto::decode_properties(m.properties)) {
    json.field(property.first, property.second);
  }
  json.end_object().field("body_bytes", m.body.size());
  if (with_body) {
    bool plain = true;
    const std::string body = body_of(m, plain);
    json.field("inflated", plain && (m.sys_flag & proto::sys_flag::kCompressed) != 0);
    if (is_utf8(body)) {
      json.field("body", body);
    } else {
      json.field("body_hex",
                 hex({reinterpret_cast<const std::uint8_t*>(body.data()), body.size()}));
    }
  }
  print_line(json.end_object().text());
}

int dump_messages(const Context& context, const DumpOptions& o) {
  const auto folder = open_store(o);
  if (!folder) {
    return failed(context, folder.error().detail);
  }
  Progress bar("MiB of log", 0);
  store_tool::dump_messages(
      *folder.value(),
      filter_of(o),
      [&](const proto::MessageView& m) {
        bar.clear();
        context.json ? message_json(m, !o.no_body) : message_text(m, !o.no_body);
        return !context.stop.wait(std::chrono::milliseconds(0));
      },
      progress_of(context, bar));
  return kExitOk;
}

int dump_units(const Context& context, const DumpOptions& o) {
  const auto folder = open_store(o);
  if (!folder) {
    return failed(context, folder.error().detail);
  }
  store_tool::dump_units(*folder.value(), filter_of(o), [&](const store_tool::UnitLine& line) {
    const bool filler = line.unit.is_filler();
    if (context.json) {
      Json json;
      json.begin_object().field("topic", line.queue->topic).field("queue_id", line.queue->id);
      json.field("offset", line.offset).field("filler", filler);
      json.field("phys", line.unit.phys).field("bytes", line.unit.bytes);
      json.field("tags_code", line.unit.tags_code);
      if (line.ext) {
        json.key("extension").begin_object().field("tags_code", line.ext->tags_code);
        json.field("store_ms", line.ext->store_ms)
            .field("bits", hex(line.ext->bitmap))
            .end_object();
      }
      print_line(json.end_object().text());
    } else {
      std::string text = fmt::format("{}/{} {}", line.queue->topic, line.queue->id, line.offset);
      text += filler ? std::string(" filler")
                     : fmt::format(" phys={} bytes={} tags_code={}",
                                   line.unit.phys,
                                   line.unit.bytes,
                                   line.unit.tags_code);
      if (line.ext) {
        text += fmt::format(" extension: tags_code={} stored={} bits={}",
                            line.ext->tags_code,
                            time_text(line.ext->store_ms),
                            hex(line.ext->bitmap));
      }
      print_line(text);
    }
    return !context.stop.wait(std::chrono::milliseconds(0));
  });
  return kExitOk;
}

int dump_index(const Context& context, const DumpOptions& o) {
  const auto folder = open_store(o);
  if (!folder) {
    return failed(context, folder.error().detail);
  }
  store_tool::dump_index(*folder.value(), filter_of(o), [&](const store_tool::IndexLine& line) {
    const auto hash = static_cast<std::uint32_t>(line.item.hash);
    if (context.json) {
      Json json;
      json.begin_object().field("file", line.file->name).field("entry", line.number);
      json.field("hash", fmt::format("{:08x}", hash)).field("slot", line.slot);
      json.field("phys", line.item.phys).field("store_ms", line.store_ms);
      print_line(json.field("previous", line.item.previous).end_object().text());
    } else {
      print_line(fmt::format("{} {} hash={:08x} slot={} phys={} stored={} previous={}",
                             line.file->name,
                             line.number,
                             hash,
                             line.slot,
                             line.item.phys,
                             time_text(line.store_ms),
                             line.item.previous));
    }
    return !context.stop.wait(std::chrono::milliseconds(0));
  });
  return kExitOk;
}

}  // namespace

void add_store_dump(CLI::App& store, Context& context) {
  CLI::App* dump =
      store.add_subcommand("dump", "What is stored, one line each; --json for programs");
  dump->require_subcommand(1);
  using Run = int (*)(const Context&, const DumpOptions&);
  const auto add = [&](const char* name, const char* what, Run run) {
    const auto o = std::make_shared<DumpOptions>();
    CLI::App* c = dump->add_subcommand(name, what);
    add_store_options(*c, *o, true);
    c->add_option("--topic,-t", o->topic, "Of this topic");
    c->add_option("--max", o->max, "At most so many; 0: all");
    c->callback(
        [&context, o, run] { context.run = [&context, o, run] { return run(context, *o); }; });
    return std::pair(c, o);
  };
  const auto queues = [](CLI::App* c, DumpOptions& o) {
    c->add_option("--queue,-q", o.queue, "Of this queue")->check(CLI::NonNegativeNumber);
    c->add_option("--offset", o.offsets, "Queue offsets: 17, 17..90 or 17..")
        ->check(CLI::Validator(check_offsets, "RANGE"));
  };
  const auto times = [](CLI::App* c, DumpOptions& o) {
    c->add_option("--key", o.key, "With this key");
    const CLI::Validator time(check_time, "TIME");
    c->add_option("--since", o.since, "Stored at this time or later")->check(time);
    c->add_option("--until", o.until, "Stored at this time or before")->check(time);
  };
  auto [c, o] =
      add("messages", "Messages: of a topic by queue, else as they lie in the log", dump_messages);
  queues(c, *o);
  times(c, *o);
  c->add_flag("--scan", o->scan, "Read the log, whatever queues and index say");
  c->add_flag("--no-body", o->no_body, "Without bodies");
  auto [u, uo] = add("units", "Units of the consume queues", dump_units);
  queues(u, *uo);
  auto [i, io] =
      add("index", "Entries of the key index; of a key with --topic and --key", dump_index);
  times(i, *io);
}

}  // namespace tenon::app
