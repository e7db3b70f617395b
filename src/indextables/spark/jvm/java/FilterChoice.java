package indextables.spark;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;

/** The plan of the driver for a plain filter: a scan by the index, or Spark's own scan of fewer splits. */
final class FilterChoice {
    /** Whether a scan by the index replaces Spark's own. */
    final boolean isByIndex;
    /** The text of a predicate that is true wherever the filter is true. */
    final String where;
    final String reason;
    /** One byte a split, 0 if no row can match. */
    final byte[] mask;

    private FilterChoice(boolean isByIndex, String where, String reason, byte[] mask) {
        this.isByIndex = isByIndex;
        this.where = where;
        this.reason = reason;
        this.mask = mask;
    }

    /** Ask the driver; null if it knows no more than the log. */
    static FilterChoice of(List hints, Function choose) {
        byte[] answer = (byte[]) Texts.checked(choose.apply(Texts.json(hints)));
        if (answer.length == 0) return null;
        int end = 5 + ByteBuffer.wrap(answer, 1, 4).getInt();
        StringBuilder where = new StringBuilder();
        for (int i = 0; i < hints.size(); i++) where.append(i == 0 ? "" : " AND ").append(hints.get(i));
        return new FilterChoice(
            answer[0] != 0, where.toString(), new String(answer, 5, end - 5, StandardCharsets.UTF_8),
            Arrays.copyOfRange(answer, end, answer.length));
    }
}
