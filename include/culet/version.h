// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
#pragma once

#define CULET_VERSION_MAJOR 0
#define CULET_VERSION_MINOR 1
#define CULET_VERSION_PATCH 0
#define CULET_VERSION "0.1.0"
