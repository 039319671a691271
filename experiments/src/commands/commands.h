// Every command of the program, one file each.
#pragma once

#include "command.h"

namespace batchless {

extern const CommandMaker kRulesCommand;
extern const CommandMaker kStabilityCommand;
extern const CommandMaker kSweepCommand;
extern const CommandMaker kOptimumCommand;
extern const CommandMaker kLimitCommand;
extern const CommandMaker kDesignCommand;
extern const CommandMaker kBoundaryCommand;
extern const CommandMaker kMarginCommand;
extern const CommandMaker kWorstCaseCommand;
extern const CommandMaker kNoiseCommand;
extern const CommandMaker kFrontierCommand;
extern const CommandMaker kFrequencyCommand;
extern const CommandMaker kInconsistencyCommand;
extern const CommandMaker kContinuousCommand;
extern const CommandMaker kCriticalDelayCommand;
extern const CommandMaker kPipelineStabilityCommand;
extern const CommandMaker kSimulateCommand;
extern const CommandMaker kRootsCommand;
extern const CommandMaker kAdviseCommand;
extern const CommandMaker kScheduleCommand;
extern const CommandMaker kNetworkCommand;
extern const CommandMaker kCostsCommand;
extern const CommandMaker kThroughputCommand;
extern const CommandMaker kPlanCommand;
extern const CommandMaker kLayoutCommand;
extern const CommandMaker kMemoryCommand;
extern const CommandMaker kStragglersCommand;
extern const CommandMaker kCalibrateCommand;
extern const CommandMaker kValidateCommand;
extern const CommandMaker kTrainCommand;
extern const CommandMaker kGenerateCommand;
extern const CommandMaker kCompareCommand;
extern const CommandMaker kReportCommand;
extern const CommandMaker kOptimizersCommand;
extern const CommandMaker kDataCommand;
extern const CommandMaker kVersionCommand;

}  // namespace batchless
