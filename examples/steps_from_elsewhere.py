"""The analysis alone, on steps to result that somebody else measured.

The numbers are the points of figure 1c of Shallue et al. 2019 (JMLR 20(112)), read off the
published picture to about 3 %: ResNet-8 on CIFAR-10, Nesterov momentum, goal error 0.3.
JAX is not needed.
"""

from replicax.analysis import fit_hyperbola

BATCH_SIZES = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
STEPS = [130000, 52800, 30500, 13200, 6630, 3580, 1530, 1030, 900, 690, 930, 710, 720]

if __name__ == "__main__":
    fit = fit_hyperbola(BATCH_SIZES, STEPS)
    print(f"steps = {fit.s_min:.0f} (1 + {fit.b_crit:.0f} / batch size)")
    print(f"off by {fit.rms_octaves:.2f} octaves (root mean square)")
    print(f"perfect scaling ends near batch size {0.2 * fit.b_crit:.0f}")
    print(f"more than {fit.b_crit / 0.1:.0f} examples per step buy next to nothing")
