// Every command of the program, one file each.
#pragma once

#include <memory>

#include "command.h"

namespace batchless {

std::unique_ptr<Command> MakeRulesCommand(CLI::App& root);
std::unique_ptr<Command> MakeStabilityCommand(CLI::App& root);
std::unique_ptr<Command> MakeSweepCommand(CLI::App& root);
std::unique_ptr<Command> MakeOptimumCommand(CLI::App& root);
std::unique_ptr<Command> MakeLimitCommand(CLI::App& root);
std::unique_ptr<Command> MakeDesignCommand(CLI::App& root);
std::unique_ptr<Command> MakeBoundaryCommand(CLI::App& root);
std::unique_ptr<Command> MakeMarginCommand(CLI::App& root);
std::unique_ptr<Command> MakeNoiseCommand(CLI::App& root);
std::unique_ptr<Command> MakeFrontierCommand(CLI::App& root);
std::unique_ptr<Command> MakeFrequencyCommand(CLI::App& root);
std::unique_ptr<Command> MakeInconsistencyCommand(CLI::App& root);
std::unique_ptr<Command> MakeContinuousCommand(CLI::App& root);
std::unique_ptr<Command> MakeCriticalDelayCommand(CLI::App& root);
std::unique_ptr<Command> MakePipelineStabilityCommand(CLI::App& root);
std::unique_ptr<Command> MakeSimulateCommand(CLI::App& root);
std::unique_ptr<Command> MakeRootsCommand(CLI::App& root);
std::unique_ptr<Command> MakeAdviseCommand(CLI::App& root);
std::unique_ptr<Command> MakeScheduleCommand(CLI::App& root);
std::unique_ptr<Command> MakeNetworkCommand(CLI::App& root);
std::unique_ptr<Command> MakeCostsCommand(CLI::App& root);
std::unique_ptr<Command> MakeThroughputCommand(CLI::App& root);
std::unique_ptr<Command> MakePlanCommand(CLI::App& root);
std::unique_ptr<Command> MakeLayoutCommand(CLI::App& root);
std::unique_ptr<Command> MakeMemoryCommand(CLI::App& root);
std::unique_ptr<Command> MakeStragglersCommand(CLI::App& root);
std::unique_ptr<Command> MakeCalibrateCommand(CLI::App& root);
std::unique_ptr<Command> MakeTrainCommand(CLI::App& root);
std::unique_ptr<Command> MakeOptimizersCommand(CLI::App& root);
std::unique_ptr<Command> MakeDataCommand(CLI::App& root);
std::unique_ptr<Command> MakeVersionCommand(CLI::App& root);

}  // namespace batchless
