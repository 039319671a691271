#include "modules/modules.h"

namespace batchless::training {

const OneDnnModule kOneDnnModule = {MakeOneDnnConvolution, OneDnnVersion};

}  // namespace batchless::training
