// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
int main() { return 0; }
