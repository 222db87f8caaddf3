// SPDX-License-Identifier: Apache-2.0
// The precompiled header of tests that use LibTorch. LibTorch's CHECK, which ends the process,
// gives way to Catch2's.
#pragma once

#include "core/torch_pch.h"

#undef CHECK
#include "support/catch.h"
