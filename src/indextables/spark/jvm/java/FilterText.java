package indextables.spark;

import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.sources.*;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's filters as the text of a predicate that is true wherever the filter is true. Filters without an equivalent are
 * left out, so a scan by the text may find more rows than the filter, never fewer.
 */
public final class FilterText {
    private static final DateTimeFormatter MOMENT = DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss.SSSSSS");
    private static final java.util.Date OLDEST = java.util.Date.from(Instant.parse("1901-01-01T00:00:00Z"));
    private static final int MOST_VALUES = 1000;

    /** The text; null if no part of the filter has an equivalent. */
    public static String of(Filter filter) {
        if (filter instanceof And) {
            String left = of(((And) filter).left());
            String right = of(((And) filter).right());
            if (left == null) return right;
            return right == null ? left : "(" + left + " AND " + right + ")";
        }
        return exactly(filter);
    }

    /** The text of a predicate that is true exactly where the filter is true; null if there is none. */
    static String exactly(Filter filter) {
        if (filter instanceof And) {
            return joined(((And) filter).left(), " AND ", ((And) filter).right());
        }
        if (filter instanceof Or) {
            return joined(((Or) filter).left(), " OR ", ((Or) filter).right());
        }
        if (filter instanceof Not) {
            String child = exactly(((Not) filter).child());
            return child == null ? null : "(NOT " + child + ")";
        }
        if (filter instanceof IsNull) return "(" + column(((IsNull) filter).attribute()) + " IS NULL)";
        if (filter instanceof IsNotNull) return "(" + column(((IsNotNull) filter).attribute()) + " IS NOT NULL)";
        if (filter instanceof In) return in((In) filter);
        if (filter instanceof StringStartsWith) {
            StringStartsWith starts = (StringStartsWith) filter;
            return "(" + column(starts.attribute()) + " LIKE " + quoted(literally(starts.value()) + "%") + ")";
        }
        return comparison(filter);
    }

    private static String joined(Filter left, String word, Filter right) {
        String first = exactly(left);
        String second = exactly(right);
        return first == null || second == null ? null : "(" + first + word + second + ")";
    }

    private static String comparison(Filter filter) {
        if (filter instanceof EqualTo) return compared(((EqualTo) filter).attribute(), "=", ((EqualTo) filter).value());
        if (filter instanceof EqualNullSafe) {
            return compared(((EqualNullSafe) filter).attribute(), "<=>", ((EqualNullSafe) filter).value());
        }
        if (filter instanceof LessThan) return compared(((LessThan) filter).attribute(), "<", ((LessThan) filter).value());
        if (filter instanceof LessThanOrEqual) {
            return compared(((LessThanOrEqual) filter).attribute(), "<=", ((LessThanOrEqual) filter).value());
        }
        if (filter instanceof GreaterThan) {
            return compared(((GreaterThan) filter).attribute(), ">", ((GreaterThan) filter).value());
        }
        if (filter instanceof GreaterThanOrEqual) {
            return compared(((GreaterThanOrEqual) filter).attribute(), ">=", ((GreaterThanOrEqual) filter).value());
        }
        return null;
    }

    private static String compared(String attribute, String operator, Object value) {
        String text = literal(value);
        return text == null ? null : "(" + column(attribute) + " " + operator + " " + text + ")";
    }

    private static String in(In filter) {
        Object[] values = filter.values();
        if (values.length == 0 || values.length > MOST_VALUES) return null;
        StringBuilder list = new StringBuilder();
        for (int i = 0; i < values.length; i++) {
            String text = values[i] == null ? "NULL" : literal(values[i]);
            if (text == null) return null;
            list.append(i == 0 ? "" : ", ").append(text);
        }
        return "(" + column(filter.attribute()) + " IN (" + list + "))";
    }

    /** A name in quotes, part by part: Spark does not quote the keywords of predicates. */
    private static String column(String attribute) {
        List parts = CollectionConverters.asJava(UnresolvedAttribute.parseAttributeName(attribute));
        StringBuilder quoted = new StringBuilder();
        for (int i = 0; i < parts.size(); i++) {
            quoted.append(i == 0 ? "`" : ".`").append(((String) parts.get(i)).replace("`", "``")).append("`");
        }
        return quoted.toString();
    }

    private static String literal(Object value) {
        if (value instanceof String) return quoted((String) value);
        if (value instanceof Boolean || value instanceof Integer || value instanceof Long) return value.toString();
        if (value instanceof Short || value instanceof Byte) return value.toString();
        if (value instanceof BigDecimal) return ((BigDecimal) value).toPlainString() + "BD";
        if (value instanceof Float || value instanceof Double) {
            double number = ((Number) value).doubleValue();
            return Double.isNaN(number) || Double.isInfinite(number) ? null : "CAST('" + number + "' AS DOUBLE)";
        }
        return moment(value);
    }

    private static String moment(Object value) {
        // Java's older types use another calendar and other offsets for early dates.
        if (value instanceof java.util.Date && ((java.util.Date) value).before(OLDEST)) return null;
        if (value instanceof java.sql.Date) return moment(((java.sql.Date) value).toLocalDate());
        if (value instanceof java.sql.Timestamp) return moment(((java.sql.Timestamp) value).toInstant());
        if (value instanceof LocalDate) {
            return isOfFourDigits(((LocalDate) value).getYear()) ? "DATE '" + value + "'" : null;
        }
        boolean isInstant = value instanceof Instant;
        if (!isInstant && !(value instanceof LocalDateTime)) return null;
        LocalDateTime at = isInstant ? LocalDateTime.ofInstant((Instant) value, ZoneOffset.UTC) : (LocalDateTime) value;
        if (!isOfFourDigits(at.getYear())) return null;
        return (isInstant ? "TIMESTAMP '" : "TIMESTAMP_NTZ '") + at.format(MOMENT) + (isInstant ? "Z'" : "'");
    }

    private static boolean isOfFourDigits(int year) {
        return year >= 1 && year <= 9999;
    }

    /** A pattern that matches only the text. */
    private static String literally(String text) {
        return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_");
    }

    private static String quoted(String text) {
        return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'";
    }
}
