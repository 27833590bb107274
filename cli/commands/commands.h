// The commands of profctl, one in each <name>.cc. Apart from command.h, so that a new one
// is compiled in one place.
#ifndef PROFD_CLI_COMMANDS_COMMANDS_H_
#define PROFD_CLI_COMMANDS_COMMANDS_H_

#include "cli/commands/command.h"

namespace profd::cli {

Command PsCommand();
Command TopCommand();
Command RunCommand();
Command TraceCommand();
Command CapturesCommand();
Command ShowCommand();
Command OpsCommand();
Command StepsCommand();
Command StragglersCommand();
Command MemoryCommand();
Command KernelsCommand();
Command CopiesCommand();
Command SyncsCommand();
Command IdleCommand();
Command TimeCommand();
Command CollectivesCommand();
Command CompileCommand();
Command ModulesCommand();
Command ReportCommand();
Command DiffCommand();
Command HistoryCommand();
Command ExportCommand();
Command CheckCommand();
Command OpenCommand();
Command FetchCommand();
Command ImportCommand();
Command CancelCommand();
Command DeleteCommand();
Command PinCommand();
Command PurgeCommand();
Command UnpinCommand();
Command NodeCommand();
Command AuditCommand();
Command ContextCommand();
Command ScheduleCommand();
Command VersionCommand();
Command ExplainCommand();
Command SchemaCommand();
Command HelpCommand();
Command CompletionCommand();
Command CandidatesCommand();

}  // namespace profd::cli

#endif  // PROFD_CLI_COMMANDS_COMMANDS_H_
