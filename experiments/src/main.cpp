#include "program.h"

int main(int argc, char** argv) { return batchless::RunProgram(argc, argv); }
