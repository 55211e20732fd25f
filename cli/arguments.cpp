// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The only file that includes CLI11: verbs, options, and the examples each --help ends with.
#include "arguments.h"

#include <CLI/CLI.hpp>
#include <cctype>

#include "console.h"
#include "culet/version.h"

namespace culet::cli {
namespace {

constexpr int kUsage = 2;

constexpr const char* kAbout =
    "culet finds, generates and runs the fastest GEMM for an exact problem on the device at hand.\n"
    "\n"
    "A problem is MxNxK[xBATCH]:A[*B][>D][:key=value]..., for example 16x4096x4096:bf16 or\n"
    "512x512x512x8:f16*f16>f32:layout=nt:epi=\"relu(acc + bias[n])\"  (docs/problem.md)";

constexpr const char* kMainExamples =
    "Examples:\n"
    "  culet tune 16x4096x4096:bf16                       the fastest kernel for one GEMM\n"
    "  culet tune --shapes shapes/llm-linear.shapes --m 1,16\n"
    "  culet rank 4096x4096x4096:bf16 --device h200       no GPU needed\n"
    "  culet doctor                                       what is found on this machine\n"
    "\n"
    "Exit status: 0 ok, 2 usage, 3 no candidate, 4 wrong result, 5 device, 6 cache or file,\n"
    "7 regression, 124 budget used up, 130 interrupted.\n";

constexpr const char* kTuneExamples =
    "Examples:\n"
    "  culet tune 16x4096x4096:bf16\n"
    "  culet tune '64x4096x4096:bf16:epi=\"gelu(acc + bias[n])\"' --top all\n"
    "  culet tune --shapes shapes/llm-linear.shapes --m 1,16,64 --format json -o tuned.json\n"
    "  culet tune 256x512x512:f32 --device cpu:1 --backends openblas,cpu_tile\n"
    "  culet tune --shapes my.shapes --format json --trials tried -o tuned.json\n"
    "  culet tune --shapes my.shapes --budget 300         what was found in five minutes\n"
    "  culet tune --shapes my.shapes --dry-run            how much there is to do\n"
    "  culet tune --shapes my.shapes --log runs.jsonl     what is done, for programs to read\n"
    "\n"
    "Ctrl-C ends after the trial that runs and keeps everything; twice ends at once.\n"
    "With more than four problems the table is one line a problem; `culet explain` shows all of "
    "one.\n";

constexpr const char* kRankExamples =
    "Examples:\n"
    "  culet rank 4096x4096x4096:bf16 --device h200\n"
    "  culet rank --shapes shapes/llm-linear.shapes --m 16 --device h200 --format csv\n"
    "  culet rank 16x4096x4096:bf16 --device my-gpu.json --top all\n"
    "  culet rank 16x4096x4096:bf16 --device h200 --compile\n";

constexpr const char* kListExamples =
    "Examples:\n"
    "  culet list                                         every backend\n"
    "  culet list 100x4096x4100:bf16 --why                who can compute it, and why others "
    "cannot\n"
    "  culet list 16x4096x4096:bf16 --device h200\n";

constexpr const char* kBenchExamples =
    "Examples:\n"
    "  culet bench 16x4096x4096:bf16                      the stored choice against the vendor\n"
    "  culet bench 16x4096x4096:bf16 --candidate 'simt{kernel=tile tile=16x64x16 thread=2x4}'\n"
    "`culet rank PROBLEM --top all` lists the candidates there are.\n";

constexpr const char* kExplainExamples =
    "Examples:\n"
    "  culet explain 16x4096x4096:bf16\n"
    "  culet explain 16x4096x4096:bf16 --device h200 --no-measure\n"
    "A problem that was not tuned yet is tuned first; --no-measure keeps to the model.\n";

constexpr const char* kCacheExamples =
    "Examples:\n"
    "  culet cache path\n"
    "  culet cache ls                                     problems with their choice\n"
    "  culet cache show 16x4096x4096:bf16                 all that is known of one\n"
    "  culet cache verify                                 read everything, check every checksum\n"
    "  culet cache clear --cache /tmp/store\n"
    "  culet cache clear --measurements                   tune anew without compiling anew\n"
    "  culet cache export -o tuned.json --code            all of it, with compiled code beside it\n"
    "  culet cache import tuned.json --relax driver       what holds here, whatever the driver\n"
    "  culet cache merge /mnt/a/culet /mnt/b/culet        other stores into this one\n";

constexpr const char* kPinExamples =
    "Examples:\n"
    "  culet pin                                          what is pinned\n"
    "  culet pin 16x4096x4096:bf16 'simt{kernel=tile tile=16x64x16 thread=2x4}'\n"
    "  culet pin 16x4096x4096:bf16 --remove\n"
    "A pinned candidate is verified and timed like any other, and chosen if it is correct.\n";

constexpr const char* kDenyExamples =
    "Examples:\n"
    "  culet deny                                         what is denied\n"
    "  culet deny onednn                                  a backend\n"
    "  culet deny 'openblas{call=gemm threads=1}'         a candidate\n"
    "  culet deny onednn --remove\n"
    "What is denied is listed with that reason, and neither tried nor chosen.\n";

constexpr const char* kForgetExamples =
    "Examples:\n"
    "  culet forget 16x4096x4096:bf16                     it is tuned anew next time\n"
    "Trials and selections go, on any device; compiled code and a pin of the problem stay.\n";

constexpr const char* kCompareExamples =
    "Examples:\n"
    "  culet compare old.json new.json                    of `culet tune --format json -o FILE`\n"
    "  culet compare old.json new.json --slack 5 || echo slower\n"
    "Slower is what takes longer by more than the slack, with intervals that do not overlap.\n";

constexpr const char* kDoctorExamples =
    "Examples:\n"
    "  culet doctor\n"
    "  culet doctor > doctor.txt                          for a bug report\n";

enum class Problems { many, one, at_most_one };

void add_problems(CLI::App* app, Arguments* a, Problems count) {
  auto* option = app->add_option("PROBLEM", a->problems, "What to compute, as problem text");
  option->type_name("");
  if (count == Problems::one) option->required();
  if (count != Problems::many) {
    option->expected(1);
    return;
  }
  app->add_option("--shapes", a->shapes, "File of problems, one a line, # for comments")
      ->type_name("FILE");
  app->add_option("--m", a->m, "Each problem at these values of m instead of its own")
      ->type_name("LIST");
}

void add_device(CLI::App* app, Arguments* a, const char* text) {
  app->add_option("--device", a->device, text)->type_name("DEVICE");
}

void add_choice(CLI::App* app, Arguments* a) {
  app->add_option("--top", a->top, "Candidates of each ranked backend that are tried (5)")
      ->type_name("N|all");
  app->add_option("--backends", a->backends,
                  "Backends to ask: names to allow, -name to leave out, 'vendor' for all vendors")
      ->type_name("LIST");
}

void add_output(CLI::App* app, Arguments* a) {
  app->add_option("--format", a->format, "table, json, csv or md")->type_name("FORMAT");
  app->add_option("-o,--output", a->output, "File to write, instead of standard output")
      ->type_name("FILE");
}

void add_trials(CLI::App* app, Arguments* a) {
  app->add_option("--trials", a->trials,
                  "In json and csv: all candidates, or tried: without those only ranked (all)")
      ->type_name("all|tried");
}

void add_cache(CLI::App* app, Arguments* a) {
  app->add_option("--cache", a->cache, "Folder of the store; 'none' keeps it in memory")
      ->type_name("PATH|none");
}

void add_measuring(CLI::App* app, Arguments* a) {
  app->add_option("--budget", a->budget, "Stop when this much time is used up")
      ->type_name("SECONDS");
  app->add_option("--seed", a->seed, "Of the random operands (1)")->type_name("N");
  app->add_option("--max-memory", a->max_memory, "For operands and their copies")->type_name("GB");
  app->add_option("--dump", a->dump, "Folder for the source and code of all that is compiled")
      ->type_name("DIR");
  app->add_option("--isolation", a->isolation,
                  "Run candidates in a worker process, or none: in this one (process)")
      ->type_name("process|none");
  app->add_option("--log", a->log, "File to append what is done to, one JSON object a line")
      ->type_name("FILE");
}

constexpr const char* kDeviceHere = "auto, cpu, cpu:THREADS or cuda:N (auto)";
constexpr const char* kAnyDevice =
    "auto, cpu, cpu:THREADS, cuda:N, a preset such as h200, or a JSON file (auto)";

CLI::App* add_verb(CLI::App* app, const char* name, const char* about, const char* examples) {
  CLI::App* verb = app->add_subcommand(name, about);
  verb->footer(examples);
  return verb;
}

void add_cache_verbs(CLI::App* app, Arguments* a) {
  CLI::App* cache =
      add_verb(app, "cache", "The store of compiled code and timings", kCacheExamples);
  cache->require_subcommand(1);
  const auto add = [&](const char* name, const char* about) {
    CLI::App* verb = cache->add_subcommand(name, about);
    verb->footer(kCacheExamples);
    add_cache(verb, a);
    verb->callback([a, name] {
      a->verb = Verb::cache;
      a->cache_verb = name;
    });
    return verb;
  };
  add("path", "Print the file the store is in");
  add("ls", "List problems with their choice, newest first");
  add_problems(add("show", "Show all that is known of a problem"), a, Problems::one);
  add("verify", "Read everything and check every checksum; status 6 if something is damaged");
  add("clear", "Delete everything stored")
      ->add_flag("--measurements", a->measurements,
                 "Trials and selections only: compiled code stays");

  CLI::App* out =
      add("export", "Write trials and selections as JSON that people can read and edit");
  out->add_option("PROBLEM", a->problems, "Only of these problems")->type_name("");
  out->add_option("-o,--output", a->output, "File to write, instead of standard output")
      ->type_name("FILE");
  out->add_flag("--code", a->code, "Compiled code too, all of it, to FILE.code.sqlite");
  const auto allow_code = [&](CLI::App* verb) {
    verb->add_flag("--allow-code", a->allow_code,
                   "Take compiled code that another store made, too; it will be loaded and run");
  };
  CLI::App* in = add("import", "Take over what was exported, as far as it holds on this machine");
  in->add_option("FILE", a->files, "File of `culet cache export`")
      ->type_name("")
      ->required()
      ->expected(1);
  CLI::Option* relax =
      in->add_option("--relax", a->relax,
                     "What may differ: driver, library, policy, name, units, threads")
          ->type_name("LIST");
  in->add_flag("--any", a->any, "Keep entries of other machines, too, as they are")
      ->excludes(relax);
  allow_code(in);
  CLI::App* merge = add("merge", "Take over all that other stores know");
  merge->add_option("STORE", a->files, "Folder of a store")->type_name("")->required();
  allow_code(merge);
}

/// What a user decides beside what was measured.
void add_decisions(CLI::App* app, Arguments* a) {
  CLI::App* pin =
      add_verb(app, "pin", "Give a problem a candidate of your own choice", kPinExamples);
  pin->add_option("PROBLEM", a->problem, "Problem text; none: list what is pinned")->type_name("");
  pin->add_option("CANDIDATE", a->candidate, "Candidate as reports print it")->type_name("");
  pin->add_flag("--remove", a->remove, "Take the pin of the problem back");
  add_device(pin, a,
             "Device to check the candidate for: cpu, cpu:THREADS or cuda:N (the backend's)");
  add_cache(pin, a);
  pin->callback([a] {
    a->verb = Verb::pin;
    if (!a->problem.empty()) a->problems = {a->problem};
  });

  CLI::App* deny = add_verb(app, "deny", "Leave a candidate or a backend out", kDenyExamples);
  deny->add_option("NAME", a->denied, "Backend, or candidate as reports print it; none: list them")
      ->type_name("");
  deny->add_flag("--remove", a->remove, "Allow it again");
  add_cache(deny, a);
  deny->callback([a] { a->verb = Verb::deny; });

  CLI::App* forget =
      add_verb(app, "forget", "Delete what was measured for a problem", kForgetExamples);
  forget->add_option("PROBLEM", a->problems, "Problem text")->type_name("")->required();
  add_cache(forget, a);
  forget->callback([a] { a->verb = Verb::forget; });
}

void define(CLI::App* app, Arguments* a) {
  const auto on = [a](CLI::App* verb, Verb value) {
    verb->callback([a, value] { a->verb = value; });
  };
  CLI::App* tune =
      add_verb(app, "tune", "Find the fastest verified kernel for each problem", kTuneExamples);
  add_problems(tune, a, Problems::many);
  add_device(tune, a, kDeviceHere);
  add_choice(tune, a);
  add_output(tune, a);
  add_trials(tune, a);
  add_cache(tune, a);
  add_measuring(tune, a);
  tune->add_flag("--no-measure", a->no_measure, "Choose by the model alone");
  tune->add_flag("--fresh", a->fresh, "Measure again what the store already knows");
  tune->add_flag("--dry-run", a->dry_run, "Count what would be compiled and timed, and stop");
  on(tune, Verb::tune);

  CLI::App* rank =
      add_verb(app, "rank", "Rank the candidates by the model; no device is needed", kRankExamples);
  add_problems(rank, a, Problems::many);
  add_device(rank, a, kAnyDevice);
  add_choice(rank, a);
  add_output(rank, a);
  rank->add_flag("--compile", a->compile,
                 "Compile what is on the shortlist, too; status 5 if something fails or spills");
  on(rank, Verb::rank);

  CLI::App* list =
      add_verb(app, "list", "List the backends, or who can compute a problem", kListExamples);
  add_problems(list, a, Problems::at_most_one);
  list->add_flag("--why", a->why, "With the reason of each no");
  add_device(list, a, kAnyDevice);
  on(list, Verb::list);

  CLI::App* bench =
      add_verb(app, "bench", "Time given candidates against the vendor's", kBenchExamples);
  add_problems(bench, a, Problems::one);
  bench->add_option("--candidate", a->candidates, "Candidate as reports print it; may be repeated")
      ->type_name("TEXT")
      ->take_all();
  add_device(bench, a, kDeviceHere);
  add_output(bench, a);
  add_trials(bench, a);
  add_cache(bench, a);
  add_measuring(bench, a);
  on(bench, Verb::bench);

  CLI::App* explain = add_verb(
      app, "explain", "Show every candidate of a problem, the choice, and why", kExplainExamples);
  add_problems(explain, a, Problems::one);
  add_device(explain, a, kAnyDevice);
  add_choice(explain, a);
  add_output(explain, a);
  add_trials(explain, a);
  add_cache(explain, a);
  add_measuring(explain, a);
  explain->add_flag("--no-measure", a->no_measure, "Choose by the model alone");
  explain->add_flag("--all", a->all, "All candidates, also the many that were only ranked");
  on(explain, Verb::explain);

  add_cache_verbs(app, a);
  add_decisions(app, a);
  CLI::App* compare = add_verb(
      app, "compare", "Compare two reports; status 7 if something became slower", kCompareExamples);
  compare->add_option("OLD", a->before, "Report of `culet tune --format json`")
      ->type_name("")
      ->required();
  compare->add_option("NEW", a->after, "The one to judge")->type_name("")->required();
  compare->add_option("--slack", a->slack, "Differences up to this are none (2)")
      ->type_name("PERCENT");
  compare->add_option("--format", a->format, "table or json")->type_name("FORMAT");
  compare->add_option("-o,--output", a->output, "File to write, instead of standard output")
      ->type_name("FILE");
  on(compare, Verb::compare);
  CLI::App* doctor =
      add_verb(app, "doctor", "Show what is found on this machine, and how to get what is missing",
               kDoctorExamples);
  add_cache(doctor, a);
  on(doctor, Verb::doctor);
  CLI::App* env = app->add_subcommand("env", "The environment variables");
  env->add_flag("--markdown", a->markdown, "As the documentation has them");
  env->group("");  // hidden: the documentation is made from it
  on(env, Verb::env);
}

bool is_negative_number(std::string_view word) {
  return word.size() > 1 && word[0] == '-' &&
         std::isdigit(static_cast<unsigned char>(word[1])) != 0;
}

/// A negative number looks like an option. A leading space lets it through to whoever reads it,
/// whose message is about the number; trim() takes the space away again.
std::vector<std::string> words(int argc, const char* const* argv) {
  std::vector<std::string> result;
  for (int i = argc - 1; i >= 1; --i) {  // CLI11 takes them in reverse
    std::string word = argv[i];
    if (is_negative_number(word)) word.insert(0, " ");
    result.push_back(std::move(word));
  }
  return result;
}

void trim(Arguments* a) {
  const auto strip = [](std::string& text) {
    if (text.starts_with(' ') && is_negative_number(std::string_view(text).substr(1))) {
      text.erase(0, 1);
    }
  };
  for (std::string& problem : a->problems) strip(problem);
  for (std::string& candidate : a->candidates) strip(candidate);
  for (std::string* text :
       {&a->shapes, &a->m, &a->device, &a->format, &a->trials, &a->output, &a->budget, &a->seed,
        &a->cache, &a->max_memory, &a->slack, &a->candidate, &a->denied}) {
    strip(*text);
  }
  for (std::optional<std::string>* text :
       {&a->top, &a->backends, &a->dump, &a->isolation, &a->log}) {
    if (*text) strip(**text);
  }
}

/// An empty value is a variable of a script that was not set. Taken for "not given" it would tune
/// without the limit, or into the store, that was meant.
std::string empty_value(const CLI::App& app) {
  for (const CLI::App* verb : app.get_subcommands()) {
    for (const CLI::Option* option : verb->get_options()) {
      const std::string name = option->get_name();
      const bool list = name == "--m" || name == "--backends" || name == "--relax";
      for (const std::string& value : option->results()) {
        if (value.empty()) return name + ": the value is empty";
        const std::string framed = "," + value + ",";
        if (list && framed.find(",,") != std::string::npos) {
          return name + ": '" + value + "' has an empty item";
        }
      }
    }
    if (std::string nested = empty_value(*verb); !nested.empty()) return nested;
  }
  return {};
}

/// CLI11 would say only that a subcommand is required.
std::string unknown_verb(const CLI::App& app, const std::string& prefix, int argc,
                         const char* const* argv) {
  if (argc < 1 || argv[0][0] == '-') return {};
  const std::string word = argv[0];
  std::string known;
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (verb->get_name() == word) {
      const bool nested = !verb->get_subcommands({}).empty();
      return nested ? unknown_verb(*verb, prefix + word + " ", argc - 1, argv + 1) : std::string();
    }
    if (verb->get_group().empty()) continue;
    known += (known.empty() ? "" : ", ") + verb->get_name();
  }
  return "unknown verb '" + prefix + shown(word) + "'; known are " + known;
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

}  // namespace

Parsed parse_arguments(int argc, const char* const* argv) {
  Parsed parsed;
  Arguments arguments;
  CLI::App app(kAbout, "culet");
  app.get_formatter()->column_width(28);
  app.set_version_flag("--version", "culet " CULET_VERSION);
  app.footer(kMainExamples);
  app.require_subcommand(1);
  define(&app, &arguments);
  try {
    if (argc <= 1) throw CLI::CallForHelp();
    parsed.error = unknown_verb(app, "", argc - 1, argv + 1);
    if (parsed.error.empty()) {
      app.parse(words(argc, argv));
      parsed.error = empty_value(app);
    }
    if (!parsed.error.empty()) {
      parsed.error += " (see culet --help)";
      parsed.status = kUsage;
      return parsed;
    }
    trim(&arguments);
    arguments.words.assign(argv + 1, argv + argc);
    parsed.arguments = std::move(arguments);
  } catch (const CLI::CallForVersion&) {
    parsed.text = "culet " CULET_VERSION "\n";
  } catch (const CLI::CallForHelp&) {
    parsed.text = app.help();
    parsed.status = argc <= 1 ? kUsage : 0;
  } catch (const CLI::ParseError& error) {
    const auto verbs = app.get_subcommands();
    parsed.error = one_line(error.what()) + " (see culet " +
                   (verbs.empty() ? "" : verbs.front()->get_name() + " ") + "--help)";
    parsed.status = kUsage;
  }
  return parsed;
}

}  // namespace culet::cli
