// profctl(1), made from the command table and the few sections below.
#include <string>
#include <string_view>

#include "cli/commands/help_text.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

// The day the text below was last changed; a build date would make builds differ.
constexpr std::string_view kDate = "2026-11-20";

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out.push_back(c);
    }
  }
  if (!out.empty() && (out[0] == '.' || out[0] == '\'')) out.insert(0, "\\&");
  return out;
}

std::string RoffParagraphs(std::string_view text) {
  std::string out;
  while (true) {
    const size_t end = text.find("\n\n");
    StrAppend(&out, Escaped(text.substr(0, end)), "\n");
    if (end == std::string_view::npos) return out;
    out += ".PP\n";
    text.remove_prefix(end + 2);
  }
}

std::string FlagEntry(const Flag& flag) {
  std::string text = ".TP\n";
  if (flag.letter != 0) {
    StrAppend(&text, "\\fB\\-", std::string(1, flag.letter), "\\fR, ");
  }
  StrAppend(&text, "\\fB\\-\\-", Escaped(flag.name), "\\fR");
  if (flag.value_is_optional) {
    StrAppend(&text, "[=\\fI", Escaped(flag.value_name), "\\fR]");
  } else if (!flag.value_name.empty()) {
    StrAppend(&text, " \\fI", Escaped(flag.value_name), "\\fR");
  }
  return StrCat(text, "\n", Escaped(HelpWithActions(flag)), ".\n");
}

std::string CommandSection(const Command& command) {
  std::string text = StrCat(".SS profctl ", command.name);
  if (command.is_launcher) StrAppend(&text, " [FLAGS]");
  if (!command.arguments.empty()) StrAppend(&text, " ", Escaped(command.arguments));
  if (!command.is_launcher) StrAppend(&text, " [FLAGS]");
  StrAppend(&text, "\n", RoffParagraphs(command.description));
  for (const Flag& flag : command.flags) StrAppend(&text, FlagEntry(flag));
  return text;
}

constexpr std::string_view kIntroduction =
    R"(.SH DESCRIPTION
.B profctl
captures training steps of processes that are running, through the daemon
.BR profd (8),
and shows where the time and the memory went, and how far the numbers can be trusted.
A process can be captured once it has loaded the client library.
.PP
Where a command takes an \fIID\fR, the start of one is enough if no other capture begins so.
Where it takes \fIFILE.profd\fR, a capture that was fetched stands for its ID and no daemon is
needed.
.PP
Results are on stdout; progress, hints and errors on stderr.
Tables fit the terminal; with \fB\-\-json\fR nothing is shortened, 64\-bit integers are numbers, and
times are nanoseconds since \fIstart_unix_ns\fR of the capture.
)";

constexpr std::string_view kClosing =
    R"(.SH EXIT STATUS
.TP
.B 0
Done.
.TP
.B 1
Failed.
.TP
.B 2
Wrong usage.
.TP
.B 3
A requested check found problems.
.TP
.B 4
Partial: something was kept, not all that was asked.
.TP
.B 5
Refused: not permitted, or busy.
.TP
.B 6
No daemon.
.TP
.B 130
Interrupted.
.TP
.B 141
The reader of stdout closed it, as in \fBprofctl ops \fIID\fB | head \-1\fR.
No message.
.SH ENVIRONMENT
.TP
.B PROFD_ADDRESS
The daemon to talk to, unless \fB\-\-address\fR says it: \fBunix:\fIPATH\fR or \fIHOST\fB:\fIPORT\fR.
.TP
.B PROFD_SOCKET_DIR
The socket directory of the daemon, unless an address is given.
Without either, the first of \fI/run/profd\fR and \fI$XDG_RUNTIME_DIR/profd\fR that answers.
.TP
.B PROFD_CACHE_DIR
Where captures are kept that reports copied here, 2 GiB at most, those not used longest going first;
empty: nowhere.
Unless it is set, only captures of daemons reached over the network are kept, in
\fI$XDG_CACHE_HOME/profd/captures\fR or \fI~/.cache/profd/captures\fR.
.TP
.B NO_COLOR
If set and not empty, no colours on a terminal.
.TP
.B COLUMNS
How wide tables are, also without a terminal. Default: as wide as the terminal, or without limit.
.SH FILES
.TP
.I /run/profd/control.sock
The socket of the daemon of the machine.
.TP
.I $XDG_RUNTIME_DIR/profd/control.sock
The socket of a daemon of one user.
.TP
.IR FILE . ID .part
What has arrived of a capture that is being fetched.
)";

std::string Examples() {
  std::string text = ".SH EXAMPLES\n";
  for (const Command& command : Commands()) {
    if (command.hidden) continue;
    for (const Example& example : command.examples) {
      StrAppend(&text, ".TP\n\\fB", Escaped(example.command), "\\fR\n", Escaped(example.what),
                ".\n");
    }
  }
  return text;
}

}  // namespace

std::string ManPage() {
  std::string text = StrCat(
      ".\\\" Made by `profctl help --man`.\n.TH PROFCTL 1 ", kDate, " \"profd ", PROFD_VERSION,
      "\" \"profd\"\n.SH NAME\n",
      "profctl \\- capture and read training steps of running processes\n",
      ".SH SYNOPSIS\n.B profctl\n.I COMMAND\n[\\fIARGUMENTS\\fR] [\\fIFLAGS\\fR]\n", kIntroduction,
      ".SH COMMANDS\n", "Flags may precede or follow arguments; \\fB\\-\\-\\fR ends them.\n",
      "Every command takes \\fB\\-\\-help\\fR, all but \\fBrun\\fR \\fB\\-\\-json\\fR, and those "
      "that need a daemon\n\\fB\\-\\-address\\fR \\fIADDRESS\\fR.\n");
  for (const Command& command : Commands()) {
    if (!command.hidden) StrAppend(&text, CommandSection(command));
  }
  return StrCat(text, kClosing, Examples(), ".SH SEE ALSO\n.BR profd (8)\n");
}

}  // namespace profd::cli
